"""Input formats other than plain text."""
