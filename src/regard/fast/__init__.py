"""Fast forms of models, applied from outside: kernels in C, decoding step, fused training, int8."""
