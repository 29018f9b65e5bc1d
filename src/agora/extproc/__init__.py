"""AGORA as a filter in Envoy: an external processor that shortens request bodies.

Envoy keeps its TLS, retries, limits and dashboards; this process sees one request body at a time,
answers with a shorter one or with a plain "continue", and keeps nothing that it could not lose.
"""
