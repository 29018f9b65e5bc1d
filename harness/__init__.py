"""What tests and benchmarks share: servers on loopback, made-up histories, ways to measure."""
