"""Real coding agents through the gateway, in front of a fake provider: see `benchmarks.agents`."""
