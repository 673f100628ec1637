"""Inspection: record, ablate and attribute what a model computes, without changing the model's code."""
