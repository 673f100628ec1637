"""Data: the outside world -> batches of ids."""
