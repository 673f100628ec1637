"""Dropout (Srivastava et al. 2014)."""

from torch import nn


class Dropout(nn.Dropout):
    pass
