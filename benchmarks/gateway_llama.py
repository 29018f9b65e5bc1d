"""The cache effect on a real engine: a conversation of 60 steps through the gateway to llama.cpp.

    AGORA_MODELS=... python -m benchmarks.gateway_llama                      its own small model
    python -m benchmarks.gateway_llama --url http://127.0.0.1:8123 --model M  a server that runs

The same conversation is played three times: as it is, selected anew at every call, and by AGORA's
schedule. After each step the server is asked for one token, and its own timings say how many prompt
tokens it had to evaluate and how many it had in its cache. Other traffic on the same slot would
spoil that, so the server should have nothing else to do.
"""

import argparse
import json
import random
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from agora.core.prices import PriceSheet
from agora.gateway.config import Compression, Config, Limits, Log, Upstream
from tests.gateway.loopback import gateway

SHEET = PriceSheet(name="llama", input=1.0, read=0.02, write=1.0, output=0.0, ttl_seconds=86_400)
"""A server of one's own with a prefix cache: what it has read before costs it next to nothing."""
_ROOMS = ("kitchen", "hall", "study", "cellar", "attic", "garden", "bath", "porch")
_THINGS = ("key", "lamp", "mug", "book", "rope", "box", "coin", "map", "knife", "apple")


def conversation(steps: int, *, seed: int = 0) -> Iterator[list[dict[str, str]]]:
    """Yield the messages of each call: an agent that acts by text in a house."""
    chance = random.Random(seed)
    messages = [
        {
            "role": "system",
            "content": "You act in a house, one action at a time. Say only the action.",
        },
        {"role": "user", "content": "Find brass key 7 and put it into the box in the study."},
    ]
    yield messages
    for n in range(steps):
        room = chance.choice(_ROOMS)
        seen = ", ".join(f"a {chance.choice(_THINGS)} {chance.randrange(1, 40)}" for _ in range(12))
        action = f"go to {room} {n % 9}"
        text = f"You are in {room} {n % 9}. You see {seen}. The door to the north is open."
        messages = [
            *messages,
            {"role": "assistant", "content": action},
            {"role": "user", "content": text},
        ]
        yield messages


def play(url: str, model: str, steps: int) -> dict[str, float]:
    """Play the conversation against an address and return the sums of the server's timings."""
    sums = {"evaluated": 0, "cached": 0, "calls": 0, "prompt_ms": 0.0}
    began = time.monotonic()
    for messages in conversation(steps):
        body = {"model": model, "messages": messages, "max_tokens": 1, "temperature": 0}
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310
            said: Any = json.load(answer)
        timings = said["timings"]
        sums["evaluated"] += timings["prompt_n"]
        sums["cached"] += timings.get("cache_n", 0)
        sums["prompt_ms"] += timings["prompt_ms"]
        sums["calls"] += 1
    sums["seconds"] = time.monotonic() - began
    return sums


@contextmanager
def door(upstream_url: str, mode: str) -> Iterator[str]:
    """Run a gateway in front of the server."""
    upstream = Upstream(name="llama", base_url=upstream_url, formats=("openai",), prices="llama")
    compression = Compression(
        enabled=mode != "none",
        min_tokens=200,
        schedule="every_call" if mode == "every call" else "by_price",
        observations="user",
    )
    config = Config(
        upstreams=(upstream,),
        compression=compression,
        limits=Limits(compress_deadline_ms=5_000),
        log=Log(requests=False),
        sheets={"llama": SHEET},
    )
    with gateway(config) as (url, _):
        yield url


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a llama.cpp server that runs; without it one is started")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    server: Any
    if chosen.url:
        server = nullcontext()
        url = chosen.url
    else:
        from agora.lab.backbones.llama_server import LlamaServer, ServerSettings

        server = LlamaServer(ServerSettings(model=chosen.model, threads=chosen.threads))
        url = server.base_url.removesuffix("/v1")
    with server:
        base = 0.0
        for mode in ("none", "every call", "agora"):
            with door(url, mode) as through:
                sums = play(through, chosen.model, chosen.steps)
            base = base or sums["evaluated"]
            print(
                f"{mode:12} {sums['calls']:4.0f} calls  prompt tokens evaluated "
                f"{sums['evaluated']:9,.0f} ({sums['evaluated'] / base:5.2f}x of none)  from cache "
                f"{sums['cached']:9,.0f}  sent {sums['evaluated'] + sums['cached']:9,.0f}  "
                f"evaluating {sums['prompt_ms'] / 1e3:7.1f} s  whole {sums['seconds']:7.1f} s"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
