"""Options of each command."""
