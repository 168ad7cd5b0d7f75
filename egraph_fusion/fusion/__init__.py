"""Which operators run together: the mapping-type lattice, fusion blocks and the two planners."""
