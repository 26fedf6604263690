"""The format for running text."""
