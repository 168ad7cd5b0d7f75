"""Compare what rule sets make of the example models: FLOPs, operators, blocks, e-graph, time."""

import egraph_fusion as ef
from egraph_fusion.frontend.example_models import EXAMPLES, example_path, materialize
from egraph_fusion.rulesets.catalogue import NAMED_SETS

models = {name: materialize(example_path(name)) for name in EXAMPLES}
sets = {name: NAMED_SETS[name] for name in ("structural", "paper", "all")}
table = ef.compare_rulesets(sets, models)
print(table)
assert not [row.error for row in table.rows if row.error]

for name in models:
    flops = {row.rules: row.flops or 0 for row in table.rows if row.model == name}
    assert flops["all"] <= flops["paper"] <= flops["structural"]
