"""The same bytes for models that bind thinking: library, proxy, filter and `POST /v1/compress`.

    python -m benchmarks.bound_bytes --requests 1000 --out benchmarks/results/bound-bytes.json

Requests are drawn by seed: conversations of 8 to 80 steps with signed thinking, user text in
between, parallel calls, three models, default settings. Each goes by itself through the library,
through a proxy and its `/v1/compress`, and through the filter in a real Envoy; no process knows
anything of it before. What reaches the provider has to be equal.
"""

import argparse
import http.client
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.progress import track

from agora import bound_thinking
from agora.adapters.thoughts import count_thinking
from agora.compressor import Compressor
from agora.sent_thinking import SentThinking
from harness.bound_sessions import drawn
from harness.envoy import stack
from harness.gateway.loopback import serving
from harness.gateway.strict_upstream import StrictUpstream
from tests.proxy.running import proxy

Json = dict[str, Any]
PATIENT = "[limits]\ndeadline_ms = 60000\n"


def compare(requests: int) -> Counter[str]:
    """Return how many requests were equal and how many were not, by way."""
    counts: Counter[str] = Counter()
    upstream = StrictUpstream()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(upstream) as url,
        stack(Path(folder), url, url, PATIENT, message_timeout="300s") as door,
        proxy(url, compression={"min_tokens": 4_096}, limits={"deadline_ms": 60_000}) as other,
    ):
        for seed in track(range(requests), description="requests"):
            body = drawn(seed)
            library = _library(body)
            counts["edited"] += library["changed"]
            counts["blocks_taken_out"] += library["blocks"]
            counts["blocks"] += sum(map(count_thinking, body["messages"]))
            for way, messages in _others(body, door.url, other.port, upstream):
                same = json.dumps(messages) == json.dumps(library["messages"])
                counts[f"{way}_{'same' if same else 'differs'}"] += 1
                if not same:
                    print(f"seed {seed}: {way} differs", file=sys.stderr)
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
    body: Json, door: str, port: int, upstream: StrictUpstream
) -> Iterator[tuple[str, Any]]:
    text = json.dumps(body).encode()
    filter_port = int(door.rpartition(":")[2])
    for way, at, path in (
        ("proxy", port, "/v1/messages"),
        ("compress", port, "/v1/compress"),
        ("filter", filter_port, "/v1/messages"),
    ):
        upstream.received.clear()
        bound_thinking._sent = SentThinking()
        said = _post(at, path, text)
        yield way, json.loads(upstream.received[-1].body if upstream.received else said)["messages"]


def _post(port: int, path: str, body: bytes) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
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
