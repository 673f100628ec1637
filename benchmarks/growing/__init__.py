"""What grows: cost with length, memory with the corpus."""
