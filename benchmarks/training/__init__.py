"""Contenders in training translators."""
