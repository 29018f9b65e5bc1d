"""What is told of a finished exchange, from one record: lines, metrics, traces, journal."""
