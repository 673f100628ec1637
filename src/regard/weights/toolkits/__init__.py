"""Checkpoints of translation toolkits, one file each: settings, tensors and vocabularies to regard's."""
