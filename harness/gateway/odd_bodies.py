"""Request bodies of generated histories, with whatever else JSON allows."""

import json
import random
from collections.abc import Iterator
from typing import Any

from agora.gateway.routing.routes import CHAT, MESSAGES, RESPONSES
from agora.testing import History, sample

ROUTES = {"openai": CHAT, "responses": RESPONSES, "anthropic": MESSAGES}


MODELS = {"openai": "gpt-4o", "responses": "gpt-5", "anthropic": "claude-sonnet-4-5"}


def body_of(history: History, upto: int | None = None, **more: Any) -> bytes:
    asked: dict[str, Any] = {"model": MODELS[history.format], **more}
    if history.system is not None:
        asked["instructions" if history.format == "responses" else "system"] = history.system
    if history.tools is not None:
        asked["tools"] = history.tools
    if history.thinking:
        asked["thinking"] = {"type": "enabled", "budget_tokens": 1_024}
    field = ROUTES[history.format].field
    asked[field] = history.messages if upto is None else history.upto(upto)
    return json.dumps(
        asked, ensure_ascii=False, indent=random.Random(upto).choice([None, 1])
    ).encode("utf-8", "surrogatepass")


def odd_bodies(count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield bodies with whatever JSON allows: numbers, escapes, white space, unknown fields."""
    chance = random.Random(seed)
    for n in range(count):
        format = chance.choice(list(ROUTES))
        history = next(iter(sample(format, 1, seed=chance.randrange(10**9), max_steps=6)))
        text = body_of(history, temperature=1.0, seed=2**63, top_p=1e-7).decode(
            "utf-8", "surrogatepass"
        )
        extra = chance.choice(
            [
                "",
                '"x":1.0,"x":2,',
                '"big":18446744073709551616,',
                r'"split":"\ud83d",',
                r'"emoji":"\ud83d\ude42",',
                '"exp":1E+2,\r\n',
                '"neg":-0.0,',
                '"metadata":{"a":{"b":[1,2,3]}},',
            ]
        )
        text = text.replace("{", "{" + extra, 1)
        if n % 3 == 0:
            text = text.replace("\n", "\r\n")
        yield format, text.encode("utf-8", "surrogatepass")
