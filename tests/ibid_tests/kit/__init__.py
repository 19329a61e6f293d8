"""What the demo, the benchmarks and the outside tests share. Python's standard library only."""
