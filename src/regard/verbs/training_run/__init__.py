"""What the verb `train` is made of: start, checks, dry run, length and final scores of a run."""
