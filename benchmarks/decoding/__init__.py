"""Contenders in translating."""
