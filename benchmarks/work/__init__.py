"""The work itself, the same for everyone: batches, sentences, and how many products they ask for."""
