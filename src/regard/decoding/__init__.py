"""Next-token scores -> sequences: greedy and beam search, sampling, rules, forced scores."""
