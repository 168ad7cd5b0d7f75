"""From the graph to a saturated e-graph and its snapshot; the only place that knows egglog."""
