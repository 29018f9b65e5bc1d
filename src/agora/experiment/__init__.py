"""A fair experiment on one's own traffic: some conversations with AGORA, as many with everything.

Standard library only. `openings` looks at prompts, for what a conversation is known by; all else is
ids and figures.
"""
