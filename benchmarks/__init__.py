"""Benchmarks against other libraries on the same work, in one run: `python -m benchmarks.train` etc."""
