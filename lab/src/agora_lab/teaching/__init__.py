"""Teaching: a small language model learns to play from the readers' answers."""
