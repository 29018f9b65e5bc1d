"""A coding agent and a gateway of its own: what `agora wrap` and `agora doctor` are made of."""
