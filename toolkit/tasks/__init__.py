"""Training objectives with their examples, heads and predictions."""
