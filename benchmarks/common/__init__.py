"""What every part of the benchmarks needs: processes, rounds, the machine, tables."""
