"""Local HTTP servers."""
