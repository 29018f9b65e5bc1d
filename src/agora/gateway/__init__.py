"""The HTTP gateway: requests of known APIs in, shorter ones out, answers as they are.

Needs the extra `gateway`. `agora serve` starts it; `agora.gateway.app` has the ASGI application,
`agora.gateway.config` its settings. A request passes through four rooms: `intake` lets it in,
`routing` says where it goes, `editing` decides on its prompt, and `watching` tells of it when it is
over; `forwarding` leads it through them.
"""
