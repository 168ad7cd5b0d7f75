"""The skeletons of the example models (see egraph_fusion/frontend/example_models.py)."""
