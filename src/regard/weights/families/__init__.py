"""Families of foreign models, a file each: their config.json and names of tensors, both ways."""
