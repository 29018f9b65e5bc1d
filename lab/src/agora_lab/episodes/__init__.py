"""Episodes as records on disk, which can be read without playing."""
