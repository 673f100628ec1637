"""Weights of regard put into the models of others, so that all do the same sums."""
