"""Triton kernels, and the sizes of their tiles."""
