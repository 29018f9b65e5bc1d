"""The worth of a prompt: how likely a language model finds the recorded next action."""
