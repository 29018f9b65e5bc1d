"""Shadow mode through a running gateway: the bytes that go on, and what it predicts.

    python -m benchmarks.shadow                      10,000 bodies, and 8 sessions in both modes
    python -m benchmarks.shadow --bodies 500 --sessions 2
    python -m benchmarks.shadow --out docs/results/shadow.json

First, bodies of every kind go through a gateway in shadow mode to an upstream that keeps the hash
of what it got: short and long, odd JSON, gzip, no JSON at all. Then the same made-up agents go
through it twice, in shadow mode and with edits, to an upstream with an exact prefix cache that
counts by a real tokenizer. What shadow mode predicts is put beside what the second bill is less.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import random
import time
from collections import Counter
from itertools import cycle
from typing import Any

import aiohttp

from agora.core.prices import sheet_for
from agora.gateway.app import App
from agora.gateway.config import Compression, Limits
from benchmarks.gateway_sessions import MODEL, Session, play
from harness.gateway.cached_upstream import Cached, real_tokens
from harness.gateway.histories import chat, messages, responses
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.odd_bodies import odd_bodies
from harness.gateway.results import Figures, put

PATHS = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
MARK = "x-stainless-mark"
MOST_SECONDS = 3_000.0


class Hashing:
    """An upstream that answers everything, and keeps the hash of what it got by its mark."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.got: dict[str, str] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            for _ in range(2):
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
            return
        digest, more = hashlib.sha256(), True
        while more:
            message = await receive()
            digest.update(message.get("body", b""))
            more = message.get("more_body", False)
        mark = next(v.decode() for k, v in scope["headers"] if k == MARK.encode())
        self.got[mark] = digest.hexdigest()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})


def bodies(count: int) -> list[tuple[str, bytes, dict[str, str]]]:
    """Return bodies of every kind, each with its path and headers: always the same ones."""
    chance = random.Random(24)
    made: list[tuple[str, bytes, dict[str, str]]] = []
    odd = cycle(list(odd_bodies(max(20, count // 20), seed=24)))
    long = {
        format: [json.dumps(make(steps, 800)).encode() for steps in (6, 12, 24)]
        for format, make in (("openai", chat), ("responses", responses), ("anthropic", messages))
    }
    while len(made) < count:
        kind = chance.randrange(20)
        format = chance.choice(list(PATHS))
        body = chance.choice(long[format]).replace(b"fn_77", b"fn_%d" % chance.randrange(10**6))
        if kind < 10:
            format, body = next(odd)
            # Each is another one: a field of its own in front.
            body = body.replace(b"{", b'{"n":%d,' % len(made), 1)
        headers = {}
        if kind == 18:
            body, headers = gzip.compress(body, 1), {"content-encoding": "gzip"}
        elif kind == 19:
            body = chance.choice([b"", b"[" * 90, b"no json", body[:-7], body + b" "])
        made.append((PATHS[format], body, headers))
    return made


def fidelity(count: int) -> Figures:
    """Return how many bodies went on as they came."""
    upstream, sent = Hashing(), bodies(count)
    compression = Compression(min_tokens=200, mode="shadow")
    statuses: Counter[int] = Counter()

    async def run(url: str) -> None:
        todo = iter(range(len(sent)))
        timeout = aiohttp.ClientTimeout(total=60)

        async def one(client: aiohttp.ClientSession) -> None:
            for n in todo:
                path, body, more = sent[n]
                headers = {"content-type": "application/json", MARK: f"n-{n}", **more}
                async with client.post(url + path, data=body, headers=headers) as answer:
                    await answer.read()
                    statuses[answer.status] += 1

        async with aiohttp.ClientSession(timeout=timeout) as client:
            await asyncio.wait_for(asyncio.gather(*(one(client) for _ in range(8))), MOST_SECONDS)

    # Kept longer than a busy machine pauses: a connection must not end as a request sets out.
    with (
        serving(upstream, timeout_keep_alive=75) as up,
        gateway(config_for(up, compression=compression)) as (url, app),
    ):
        asyncio.run(run(url))
        told = _settled(app)
    same = sum(
        upstream.got.get(f"n-{n}") == hashlib.sha256(body).hexdigest()
        for n, (_, body, _) in enumerate(sent)
    )
    return {
        "total": count,
        "good": same,
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
        "would_be_edited": round(told.total("agora_shadow_requests_total", reason="compressed")),
    }


def prediction(count: int, pace: float) -> Figures:
    """Return what shadow mode predicts for some sessions, and what edits then save."""
    sessions, sheet, tokens = (
        [Session.made(n) for n in range(count)],
        sheet_for(MODEL),
        real_tokens(),
    )
    bills: dict[str, float] = {}
    told = {}
    for mode in ("shadow", "edit"):
        upstream = Cached(tokens)
        compression = Compression(mode="shadow" if mode == "shadow" else "edit")
        limits = Limits(compress_deadline_ms=20_000, restore_deadline_ms=20_000)
        with serving(upstream) as up:
            config = config_for(up, compression=compression, limits=limits)
            with gateway(config) as (url, app):
                asyncio.run(play(url, sessions, pace))
                told[mode] = _settled(app)
        read = sum(bill["read"] for bill in upstream.bills.values())
        written = sum(bill["written"] for bill in upstream.bills.values())
        bills[mode] = (read * sheet.read + written * sheet.write) * sheet.input / 1e6
    shadow = told["shadow"]
    predicted = shadow.total("agora_shadow_dollars_gained_total")
    predicted -= shadow.total("agora_shadow_dollars_lost_total")
    made = bills["shadow"] - bills["edit"]
    removed = told["edit"].total("agora_tokens_removed_total")
    after = shadow.total("agora_steps_after_edit_total")
    return {
        "sessions": count,
        "calls": round(shadow.total("agora_requests_total")),
        "dollars": {name: round(bill, 4) for name, bill in bills.items()},
        "predicted": round(predicted, 4),
        "made": round(made, 4),
        "off": round(predicted / made - 1, 4) if made else None,
        "tokens_predicted": round(shadow.total("agora_shadow_tokens_removed_total")),
        "tokens_removed": round(removed),
        "steps_after": round(after),
        "used_elided": round(shadow.total("agora_used_elided_total")),
    }


def _settled(app: App) -> Any:
    """Return what was counted once everything is: decisions may outlast the answers."""
    until = time.monotonic() + 30
    while (app.open_requests or app.forwarder.undecided) and time.monotonic() < until:
        time.sleep(0.01)
    return app.forwarder.meter.snapshot()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--pace", type=float, default=0.2, help="seconds between calls of one")
    parser.add_argument("--out", help="the file that the figures go into, too")
    asked = parser.parse_args()
    parts: dict[str, Figures] = {}
    if asked.bodies:
        parts["bodies"] = fidelity(asked.bodies)
        print("bodies that went on byte for byte:", json.dumps(parts["bodies"]))
    if asked.sessions:
        parts["prediction"] = prediction(asked.sessions, asked.pace)
        print("predicted and made:", json.dumps(parts["prediction"]))
    if asked.out:
        for name, figures in parts.items():
            put(asked.out, name, figures)


if __name__ == "__main__":
    main()
