"""Kernels in C, compiled on the machine that runs them; each caller has a plain form too."""
