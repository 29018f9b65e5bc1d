"""An upstream for Anthropic's messages that bills by an exact prefix cache, and its account."""

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

MARK = b',"cache_control":{"type":"ephemeral"}'
"""How the sessions that are made here write a cache breakpoint."""
BLOCK = 512
BYTES_PER_TOKEN = 4
"""Of the upstream with a cache, which counts no better than that."""


async def lifespan(receive: Any, send: Any) -> None:
    """Answer what the server asks at its start and its end."""
    for _ in range(2):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


class Call(NamedTuple):
    """What an upstream bills for one call, in tokens."""

    read: int
    written: int
    breaks: bool
    """Whether less was cached than the call before had sent."""


class PrefixCache:
    """What an upstream has cached for one key: every beginning of every prompt, block by block."""

    def __init__(self, tokens: Callable[[bytes], int] | None = None) -> None:
        """Start with nothing cached; `tokens` counts those of a block."""
        self._known: dict[int, int] = {}
        """By the state of a beginning: the tokens of its last block."""
        self._tokens = tokens or (lambda block: len(block) // BYTES_PER_TOKEN)
        self._last = 0

    def call(self, body: bytes) -> Call:
        """Return what a call is billed for; all of it is cached from then on."""
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
                tokens = self._known[state] = self._tokens(block)
            written += tokens
        last, self._last = self._last, blocks
        return Call(read, written + self._tokens(prompt[blocks * BLOCK :]), hit < last)


class Cached:
    """An upstream for Anthropic's messages that bills by a prefix cache for each key."""

    def __init__(self, tokens: Callable[[bytes], int] | None = None) -> None:
        """Start with no accounts."""
        self.tokens = tokens
        self.caches: dict[str, PrefixCache] = {}
        self.bills: dict[str, dict[str, int]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one call, or say what all of them cost."""
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        pieces = []
        while True:
            message = await receive()
            pieces.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        said: Any = self.bills
        if scope["path"] != "/bills":
            key = next(value.decode() for name, value in scope["headers"] if name == b"x-api-key")
            call = self.caches.setdefault(key, PrefixCache(self.tokens)).call(b"".join(pieces))
            bill = self.bills.setdefault(key, {"read": 0, "written": 0, "breaks": 0, "calls": 0})
            for name, more in (*call._asdict().items(), ("calls", 1)):
                bill[name] += more
            usage = {
                "input_tokens": 0,
                "cache_read_input_tokens": call.read,
                "cache_creation_input_tokens": call.written,
                "output_tokens": 20,
            }
            said = {"type": "message", "role": "assistant", "content": [], "usage": usage}
        answer = json.dumps(said).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def real_tokens() -> Callable[[bytes], int]:
    """Return a count by a real tokenizer: Mistral's, which comes with `mistral-common`."""
    import mistral_common
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    data = Path(mistral_common.__file__).parent / "data"
    tokenizer = Tekkenizer.from_file(max(data.glob("tekken*.json")))

    @lru_cache(maxsize=100_000)
    def count(block: bytes) -> int:
        text = block.decode("utf-8", "ignore")
        return len(tokenizer.encode(text, bos=False, eos=False))

    return count
