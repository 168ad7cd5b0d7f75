"""Tensors, operators, graphs and their text: the part that knows nothing else of the project."""
