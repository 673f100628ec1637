"""Inspection: watch a model from outside."""
