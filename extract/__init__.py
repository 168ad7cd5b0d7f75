"""What to choose from an e-graph: costs and extractors."""
