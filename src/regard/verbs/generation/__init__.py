"""What the verbs that generate text share: controls, defaults, prefixes, candidates."""
