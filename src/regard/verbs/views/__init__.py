"""What `look` is made of: a request, how models read it, what there is to see of the run."""
