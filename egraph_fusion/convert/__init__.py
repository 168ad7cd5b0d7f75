"""Whole jobs: one model, a folder of models, reports."""
