"""Notebooks of the documentation's pages."""
