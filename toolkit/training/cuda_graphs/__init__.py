"""CUDA graphs: the kernels of an update are recorded once and then launched together."""
