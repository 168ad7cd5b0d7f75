"""Print the fusion plan of a transformer, and why two of its operators are in different blocks."""

import egraph_fusion as ef
from egraph_fusion.frontend.example_models import example_path, materialize

graph = ef.load(materialize(example_path("tinybert")))
literal = ef.plan(graph, planner="dnnfusion")
extended = ef.plan(graph, planner="extended")
print(len(literal.blocks), "blocks as the paper plans,", len(extended.blocks), "as we do")
first, last = extended.blocks[0].nodes[0], extended.blocks[-1].nodes[0]
print(f"{first} and {last}:", extended.why_not(first, last))
