"""What stays of each step: everything that could stand there, and the best that fits."""
