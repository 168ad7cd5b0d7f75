"""Experiments with rules: expressions of concrete tensors, what rules make of them, comparisons."""
