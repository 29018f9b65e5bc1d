"""Runs a coding agent behind a proxy that lives as long as the agent.

A `Plan` points an agent at the proxy, and `agents` makes one for each agent. `keeper` keeps the
proxy running, `run` runs the agent, and `line` prints at the end what the session cost.
"""
