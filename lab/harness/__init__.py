"""What tests and benchmarks of the lab share."""
