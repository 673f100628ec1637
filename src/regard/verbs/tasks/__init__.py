"""The tasks that can be trained, one file each: recipe sections, data, loss, metrics."""
