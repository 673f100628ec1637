"""The work, the same for all contenders: batches, sentences, and their number of operations."""
