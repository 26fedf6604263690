"""Sentence classification and regression: GLUE and your own tables."""
