"""What may be rewritten: the rules, as tables."""
