"""Inner loops in C, compiled where they run. Whoever calls them has a plain form too."""
