"""Peers side by side on the same work, in one run: `python -m benchmarks.train` and its sisters."""
