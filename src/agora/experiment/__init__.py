"""A fair experiment on one's own traffic: some conversations with AGORA, as many with everything.

Standard library only. Nothing here reads a prompt: conversations come as ids and figures.
"""
