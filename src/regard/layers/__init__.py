"""The paper, one idea a file; knows tensors and nothing else."""
