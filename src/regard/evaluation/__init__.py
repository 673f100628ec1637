"""Evaluation: outputs and references -> numbers with signatures."""
