"""Optimizers, schedules, parameter groups and precision."""
