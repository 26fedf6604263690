"""Formats of toolkit-preprocess with questions about texts."""

from __future__ import annotations

SQUAD = "squad"
CHOICES = ("race", "swag")
READING = (SQUAD, *CHOICES)
