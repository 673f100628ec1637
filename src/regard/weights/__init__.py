"""Models <-> files: folders that are whole or absent, checkpoints, averages. No pickle anywhere."""
