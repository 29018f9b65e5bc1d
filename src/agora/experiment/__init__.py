"""A fair experiment on one's own traffic: some conversations with AGORA, as many with everything.

The service draws the arm of a conversation and writes it into its log lines; `report` reads them.
Nothing is stored, and nothing stops by itself: guard rails are alerts over the service's metrics.
Standard library only.
"""
