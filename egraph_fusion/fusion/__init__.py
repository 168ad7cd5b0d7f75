"""Which operators run as one kernel: the mapping-type lattice and the planners."""
