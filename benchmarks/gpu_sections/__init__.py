"""The sections of `benchmarks/gpu.py`: each yields its rows as soon as they are measured."""
