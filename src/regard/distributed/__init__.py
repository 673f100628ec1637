"""Distributed training: several processes train one model, which does not know of it."""
