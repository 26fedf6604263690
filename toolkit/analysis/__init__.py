"""Explain trained models: attention maps, learned kernels, FLOPs, perturbation."""
