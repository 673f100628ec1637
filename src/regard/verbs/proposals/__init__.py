"""`regard new` for each task: detect the files, split them, and adapt a measured recipe."""
