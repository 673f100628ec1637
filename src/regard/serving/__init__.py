"""Servers: what answers over HTTP."""
