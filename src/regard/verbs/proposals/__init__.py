"""What `regard new` needs of each task: files recognised and split, a measured recipe made to fit."""
