"""Contenders for scaling: cost by sequence length, memory by corpus size."""
