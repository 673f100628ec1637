"""Kernels for training on a GPU, written in Triton, which comes with PyTorch for CUDA."""
