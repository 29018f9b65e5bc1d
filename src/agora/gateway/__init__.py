"""The HTTP door: OpenAI- and Anthropic-shaped requests in, shorter ones out, answers as they are.

Needs the extra `gateway`. `agora serve` starts it; `agora.gateway.app` has the ASGI application.
"""
