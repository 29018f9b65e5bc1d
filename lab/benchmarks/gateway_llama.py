"""The cache effect on a real engine: a conversation of 60 steps through the gateway to llama.cpp.

    AGORA_MODELS=... python -m lab.benchmarks.gateway_llama                      its own small model
    python -m lab.benchmarks.gateway_llama --url http://127.0.0.1:8123 --model M  a server that runs

The same conversation is played as it is, selected anew at every call, and by AGORA's schedule under
several price sheets. After each step the server is asked for one token, and its own timings say how
many prompt tokens it had to evaluate and how many it had in its cache. Other traffic on the same
slot would spoil that, so the server should have nothing else to do.

The sheet decides when an edit is due. On a server of one's own a token that is read from the cache
costs next to nothing and a new one its evaluation. At 0 an edit never pays by evaluation, and only
the window makes one due; at 0.02 it has to pay within fifty calls.
"""

import argparse
import json
import random
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from harness.gateway.loopback import gateway
from harness.gateway.results import kept, put

from agora.core.prices import PriceSheet
from agora.gateway.config import Compression, Config, Limits, Log, Upstream

MODES: dict[str, tuple[str, float, int | None]] = {
    "none": ("never", 0.02, None),
    "paper: every call": ("every_call", 0.02, None),
    "AGORA, read 0.02": ("by_price", 0.02, None),
    "AGORA, read 0.1": ("by_price", 0.1, None),
    "AGORA, read 0, window of 1,500 tokens": ("by_price", 0.0, 1_500),
}
"""Name, schedule, price of a cached token as a ratio to a new one, window in tokens."""
_ROOMS = ("kitchen", "hall", "study", "cellar", "attic", "garden", "bath", "porch")
_THINGS = ("key", "lamp", "mug", "book", "rope", "box", "coin", "map", "knife", "apple")


def conversation(steps: int, house: int, *, seed: int = 0) -> Iterator[list[dict[str, str]]]:
    """Yield the messages of each call: an agent that acts by text in a house.

    Each way of sending them has a house of its own: servers keep prompts of earlier slots, too.
    """
    chance = random.Random(seed)
    messages = [
        {
            "role": "system",
            "content": f"You act in house {house}, one action at a time. Say only the action.",
        },
        {"role": "user", "content": "Find brass key 7 and put it into the box in the study."},
    ]
    yield messages
    for n in range(steps):
        room = chance.choice(_ROOMS)
        seen = ", ".join(f"a {chance.choice(_THINGS)} {chance.randrange(1, 40)}" for _ in range(5))
        action = f"go to {room} {n % 9}"
        text = f"You are in {room} {n % 9}. You see {seen}. The door is open."
        messages = [
            *messages,
            {"role": "assistant", "content": action},
            {"role": "user", "content": text},
        ]
        yield messages


def play(url: str, model: str, steps: int, house: int) -> dict[str, float]:
    """Play the conversation against an address and return the sums of the server's timings."""
    sums: dict[str, float] = dict.fromkeys(("evaluated", "cached", "calls", "prompt_ms"), 0.0)
    began = time.monotonic()
    for messages in conversation(steps, house):
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
        sums["last"] = timings["prompt_n"] + timings.get("cache_n", 0)
    sums["seconds"] = time.monotonic() - began
    return sums


@contextmanager
def door(upstream_url: str, mode: str) -> Iterator[str]:
    """Run a gateway in front of the server."""
    schedule, read, window = MODES[mode]
    sheet = PriceSheet(
        name="llama",
        input=1.0,
        read=read,
        write=1.0,
        output=0.0,
        ttl_seconds=86_400,
        window=window,
    )
    upstream = Upstream(name="llama", base_url=upstream_url, formats=("openai",), prices="llama")
    compression = Compression(
        enabled=schedule != "never",
        min_tokens=200,
        schedule="every_call" if schedule == "every_call" else "by_price",
        observations="user",
    )
    config = Config(
        upstreams=(upstream,),
        compression=compression,
        limits=Limits(compress_deadline_ms=5_000),
        log=Log(requests=False),
        sheets={"llama": sheet},
    )
    with gateway(config) as (url, _):
        yield url


def main() -> None:
    """Print the table, and write it to a file if one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a llama.cpp server that runs; without it one is started")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--modes", nargs="*", choices=list(MODES), default=list(MODES))
    parser.add_argument("--out", help="a JSON file that the figures are put into")
    chosen = parser.parse_args()
    server: Any
    if chosen.url:
        server = nullcontext()
        url = chosen.url
    else:
        from agora_lab.backbones.llama_server import LlamaServer, ServerSettings

        server = LlamaServer(ServerSettings(model=chosen.model, threads=chosen.threads))
        url = server.base_url.removesuffix("/v1")
    figures: dict[str, Any] = {}
    with server:
        base: dict[str, float] = {}
        for mode in chosen.modes:
            with door(url, mode) as through:
                sums = play(through, chosen.model, chosen.steps, list(MODES).index(mode) + 1)
            base = base or sums
            sent = sums["evaluated"] + sums["cached"]
            figures[mode] = {name: round(value, 1) for name, value in sums.items()}
            print(
                f"{mode:38} {sums['calls']:4.0f} calls  prompt tokens evaluated "
                f"{sums['evaluated']:9,.0f} ({sums['evaluated'] / base['evaluated']:5.2f}x)  "
                f"from cache {sums['cached']:9,.0f}  sent {sent:9,.0f}  evaluating "
                f"{sums['prompt_ms'] / 1e3:7.1f} s ({sums['prompt_ms'] / base['prompt_ms']:.2f}x)  "
                f"last prompt {sums['last']:,.0f}",
                flush=True,
            )
    if chosen.out:
        said = {"model": chosen.model, "steps": chosen.steps, "threads": chosen.threads}
        known = kept(chosen.out, "llama").get("modes", {})
        put(chosen.out, "llama", {**said, "modes": {**known, **figures}})


if __name__ == "__main__":
    main()
