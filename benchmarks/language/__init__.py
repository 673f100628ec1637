"""Contenders in training language models and in generating text."""
