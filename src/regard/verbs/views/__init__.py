"""Parts of the verb `look`: requests, model readers, resources of a run, output formats."""
