"""Several processes that train one model: put on from outside; a single process is the plain case."""
