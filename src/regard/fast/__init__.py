"""Fast forms of models, put on from outside: kernels in C, a decoding step, fused training, int8."""
