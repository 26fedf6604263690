"""Batching, prefetching and weighting of examples."""
