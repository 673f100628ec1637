"""What `look` is made of: a request, how each kind of model reads it, and what there is to see of the run."""
