"""Checks and benchmarks of a GPU: `make gpu`."""
