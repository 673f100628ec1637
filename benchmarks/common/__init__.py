"""What all benchmarks share: processes, rounds, the machine, tables."""
