"""The page of `look`: HTML, CSS and ES modules as package data, and functions that bundle them."""
