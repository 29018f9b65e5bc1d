"""An upstream for Anthropic's messages that bills by an exact prefix cache, and its account."""

import json
from typing import Any, NamedTuple

MARK = b',"cache_control":{"type":"ephemeral"}'
"""The cache breakpoint of the sessions that are made here."""
BLOCK = 512
BYTES_PER_TOKEN = 4


async def lifespan(receive: Any, send: Any) -> None:
    """Answer the server's lifespan events."""
    for _ in range(2):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


class Call(NamedTuple):
    """The bill for one call, in tokens."""

    read: int
    written: int
    breaks: bool
    """True if less was cached than the call before had sent."""


class PrefixCache:
    """An upstream's cache for one key: every prefix of every prompt, block by block."""

    def __init__(self) -> None:
        """Start with nothing cached."""
        self._known: dict[int, int] = {}
        """By the state of a beginning: the tokens of its last block."""
        self._last = 0

    def call(self, body: bytes) -> Call:
        """Bill a call, and cache its whole prompt."""
        # Breakpoints are no part of a prompt; nor is how the body ends.
        prompt = body.replace(MARK, b"").rstrip(b"]} ")
        state = hit = read = written = 0
        blocks = len(prompt) // BLOCK
        for n in range(blocks):
            block = prompt[n * BLOCK : (n + 1) * BLOCK]
            state = hash((state, block))
            tokens = self._known.get(state)
            if tokens is not None and hit == n:
                hit = n + 1
                read += tokens
                continue
            if tokens is None:
                tokens = self._known[state] = BLOCK // BYTES_PER_TOKEN
            written += tokens
        last, self._last = self._last, blocks
        return Call(read, written + len(prompt[blocks * BLOCK :]) // BYTES_PER_TOKEN, hit < last)


class Cached:
    """An upstream for Anthropic's messages that bills by a prefix cache for each key."""

    def __init__(self) -> None:
        """Start with no accounts."""
        self.caches: dict[str, PrefixCache] = {}
        self.bills: dict[str, dict[str, int]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one call."""
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        pieces, more_body = [], True
        while more_body:
            event = await receive()
            pieces.append(event.get("body", b""))
            more_body = event.get("more_body", False)
        key = next(value.decode() for name, value in scope["headers"] if name == b"x-api-key")
        call = self.caches.setdefault(key, PrefixCache()).call(b"".join(pieces))
        bill = self.bills.setdefault(key, {"read": 0, "written": 0, "breaks": 0, "calls": 0})
        for name, more in (*call._asdict().items(), ("calls", 1)):
            bill[name] += more
        usage = {
            "input_tokens": 0,
            "cache_read_input_tokens": call.read,
            "cache_creation_input_tokens": call.written,
            "output_tokens": 20,
        }
        message = {"type": "message", "role": "assistant", "content": [], "usage": usage}
        answer = json.dumps(message).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})
