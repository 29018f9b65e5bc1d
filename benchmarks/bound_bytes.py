"""The same bytes for models that bind thinking: library, gateway, filter and `POST /v1/compress`.

    python -m benchmarks.bound_bytes --requests 1000 --out docs/results/bound-bytes.json

Requests are drawn by seed: conversations of 8 to 80 steps with signed thinking, user text in
between, parallel calls, three models, default settings. Each goes by itself through the library,
over HTTP through a gateway and its `/v1/compress`, and through what the filter in Envoy decides
with; every process begins without any memory of it. What reaches the provider has to be equal.
"""

import argparse
import asyncio
import http.client
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.progress import track

from agora import bound_thinking
from agora.adapters.thoughts import count_thinking
from agora.compressor import Compressor
from agora.extproc.decide import Decider
from agora.gateway.config import Compression
from agora.gateway.editing.job import Edited
from agora.sent_thinking import SentThinking
from harness.bound_sessions import drawn
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

Json = dict[str, Any]


def compare(requests: int) -> Counter[str]:
    """Return how many requests were equal and how many were not, by way."""
    counts: Counter[str] = Counter()
    upstream = StrictUpstream()
    with serving(upstream) as url:
        # Room for all of them: one that finds none is not edited at all.
        config = config_for(url, compression=Compression(memory_mb=4096))
        decider = Decider.of(config)
        decider.start()
        with gateway(config) as (door, _):
            for seed in track(range(requests), description="requests"):
                body = drawn(seed)
                library = _library(body)
                counts["edited"] += library["changed"]
                counts["blocks_taken_out"] += library["blocks"]
                counts["blocks"] += sum(map(count_thinking, body["messages"]))
                for way, messages in _others(body, door, decider, upstream):
                    same = json.dumps(messages) == json.dumps(library["messages"])
                    counts[f"{way}_{'same' if same else 'differs'}"] += 1
                    if not same:
                        print(f"seed {seed}: {way} differs", file=sys.stderr)
        decider.stop()
    counts["requests"] = requests
    return counts


def _library(body: Json) -> Json:
    bound_thinking._sent = SentThinking()
    compression = Compressor().compress(
        body["messages"],
        model=body["model"],
        format="anthropic",
        system=body["system"],
        tools=body["tools"],
    )
    return {
        "messages": compression.messages,
        "changed": compression.changed,
        "blocks": compression.thinking.blocks,
    }


def _others(
    body: Json, door: str, decider: Decider, upstream: StrictUpstream
) -> Iterator[tuple[str, Any]]:
    text = json.dumps(body).encode()
    upstream.received.clear()
    bound_thinking._sent = SentThinking()
    _post(door, "/v1/messages", text)
    yield "gateway", json.loads(upstream.received[-1].body)["messages"]
    bound_thinking._sent = SentThinking()
    yield "compress", json.loads(_post(door, "/v1/compress", text))["messages"]
    bound_thinking._sent = SentThinking()
    pseudo = [(b":method", b"POST"), (b":path", b"/v1/messages")]
    head = decider.head([*pseudo, (b"x-api-key", b"sk-ant-key"), (b"anthropic-version", b"1")])
    outcome = asyncio.run(decider.decide(head, text))
    sent = outcome.body if isinstance(outcome, Edited) else text
    yield "filter", json.loads(sent)["messages"]


def _post(door: str, path: str, body: bytes) -> bytes:
    host, port = door.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    headers = {"x-api-key": "sk-ant-key", "anthropic-version": "2023-06-01"}
    connection.request("POST", path, body, headers)
    said = connection.getresponse().read()
    connection.close()
    return said


def main() -> None:
    """Compare, print and write the counts."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--requests", type=int, default=1_000)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    counts = compare(given.requests)
    text = json.dumps(dict(sorted(counts.items())), indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(any(count for name, count in counts.items() if name.endswith("differs")))


if __name__ == "__main__":
    main()
