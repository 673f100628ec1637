"""Fast forms of models: kernels in C, a planned decoding step, fused training, int8; put on from outside."""
