"""Contenders in training language models and in going on with a text."""
