"""The viewer: HTML, CSS and ES modules as package data, and how they are handed out."""
