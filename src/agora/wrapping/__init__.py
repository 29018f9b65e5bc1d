"""Runs a coding agent behind a proxy of its own, for as long as the agent lives.

A `Plan` says what an agent is told, `agents` makes one for each agent, `keeper` keeps the proxy
running, `run` runs the agent, and `line` says at the end what the session cost.
"""
