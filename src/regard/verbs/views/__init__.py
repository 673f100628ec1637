"""The parts of the verb `look`: requests, model readers, resources computed from a run, output formats."""
