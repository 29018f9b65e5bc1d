"""A gateway on loopback, what stands behind it, and its goals as functions of a size."""
