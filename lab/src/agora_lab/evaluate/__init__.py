"""Methods compared: episodes played, kept, audited and reported."""
