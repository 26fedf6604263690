"""Rows of text in JSON lines, CSV, TSV, Parquet and Arrow files."""
