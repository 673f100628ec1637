"""Servers that `benchmarks/serve_peers.py` compares regard with, each with its own Python."""
