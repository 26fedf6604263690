"""Completions: which of several options, such as two sentences, a model finds most probable."""
