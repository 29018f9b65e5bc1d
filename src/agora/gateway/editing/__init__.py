"""What becomes of a prompt: read, edited, remembered, within a deadline."""
