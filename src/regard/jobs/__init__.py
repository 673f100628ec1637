"""Work on many files by many processes: a plan, parts, and a record of each part."""
