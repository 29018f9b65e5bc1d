"""AGORA as a filter in Envoy: an external processor that shortens the prompts in request bodies.

Envoy carries the bytes, with its routes, keys, limits and retries. For each request it opens a
stream to this process and sends the parts of the request one by one. Each is answered with a change
or with "continue". If this process fails or is gone, requests pass unchanged.

`server` accepts the streams, `exchange` is one request on a stream, `kept` stores requests for a
second attempt, `messages` declares Envoy's messages, and `launch` starts Envoy for `agora serve`.
"""
