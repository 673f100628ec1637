"""The outside world becomes batches of ids: corpora, tokenisers, shards, loaders."""
