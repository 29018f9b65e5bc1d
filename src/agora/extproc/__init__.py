"""AGORA as a filter in Envoy: an external processor that shortens the prompts in request bodies.

Envoy carries the bytes, with its routes, keys, limits and retries. For each request it opens a
stream to this process and tells the parts of the request one by one; each is answered with a change
or with "continue". Where this process fails or is gone, requests go on as they came.

`server` takes the streams, `exchange` is one request on one of them, `kept` has what may be needed
for a second attempt, `messages` declares Envoy's messages, and `launch` starts Envoy itself for
`agora serve`.
"""
