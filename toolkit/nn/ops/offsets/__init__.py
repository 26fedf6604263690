"""Scores by offset: taps read for each pair of positions, and summed over pairs."""
