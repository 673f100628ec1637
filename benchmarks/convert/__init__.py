"""Conversion of regard's weights to models of other libraries, so that all compute the same."""
