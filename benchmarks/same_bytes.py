"""Compare the content that library, proxy, and the filter in a real Envoy send.

    python -m benchmarks.same_bytes --requests 1000
    python -m benchmarks.same_bytes --formats gemini,bound --out FILE

Requests of each format are drawn by seed: short histories of every legal shape, edited at every
call, and under `bound` conversations of 8 to 80 steps with models that bind their thinking. Each
has a key of its own, so no process knows it. The JSON of the messages that reach
the provider has to equal the library's; the bytes of proxy and filter have to be the same.
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

from agora import Compressor
from agora.service import Route, route_of
from harness.bound_sessions import drawn as drawn_bound
from harness.envoy import stack
from harness.gateway.loopback import serving
from harness.gateway.results import put
from harness.gateway.strict_upstream import StrictUpstream
from tests.proxy.running import proxy
from tests.service.bodies import PATHS, drawn

Json = dict[str, Any]
ALWAYS = {"min_tokens": 1, "edits": "every_call"}
SETTINGS = """\
[compression]
min_tokens = 1
edits = "every_call"
[limits]
deadline_ms = 60000
[owners]
stand_down = false
"""


def requests_of(kind: str, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield path and body of `count` requests."""
    if kind == "bound":
        for seed in range(count):
            yield PATHS["anthropic"], json.dumps(drawn_bound(seed)).encode()
    else:
        for body in drawn(kind, count, seed=9):
            yield PATHS[kind], body


def by_library(body: Json, route: Route) -> list[Any]:
    """Return the library's messages for a body."""
    fields = route.fields

    def value(names: tuple[str, ...]) -> Any:
        return next((body[name] for name in names if name in body), None)

    compression = Compressor(**ALWAYS).compress(  # type: ignore[arg-type]
        body[fields.messages],
        model=body.get(fields.model) or route.model,
        format=route.format,
        system=value(fields.system),
        tools=value(fields.tools),
        thinking=fields.thinks(body),
    )
    messages: list[Any] = compression.messages
    return messages


def compare(kind: str, count: int) -> Counter[str]:
    """Count the edited requests of a format, and those that proxy or filter sent differently."""
    counts = Counter(requests=0, edited=0, proxy_differs=0, filter_differs=0, bytes_differ=0)
    upstream = StrictUpstream()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(upstream) as url,
        stack(Path(folder), url, url, SETTINGS, message_timeout="300s") as door,
        proxy(
            url, compression=ALWAYS, limits={"deadline_ms": 60_000}, owners={"stand_down": False}
        ) as other,
    ):
        ports = {"proxy": other.port, "filter": int(door.url.rpartition(":")[2])}
        requests = requests_of(kind, count)
        for n, (path, body) in enumerate(track(requests, description=kind, total=count)):
            route = route_of("POST", path)
            assert route is not None
            asked = json.loads(body)
            wanted = by_library(asked, route)
            counts["requests"] += 1
            counts["edited"] += wanted != asked[route.fields.messages]
            sent = {}
            for way, port in ports.items():
                upstream.received.clear()
                post(port, path, body, f"{kind}{n}")
                sent[way] = upstream.received[-1].body
                if json.loads(sent[way])[route.fields.messages] != wanted:
                    counts[f"{way}_differs"] += 1
                    print(f"{kind} {n}: {way} differs from the library", file=sys.stderr)
            counts["bytes_differ"] += sent["proxy"] != sent["filter"]
    return counts


def post(port: int, path: str, body: bytes, key: str) -> None:
    """Send a request and read its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {
        "x-api-key": f"sk-ant-{key}",
        "authorization": f"Bearer sk-{key}",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
    }
    connection.request("POST", path, body, headers)
    connection.getresponse().read()
    connection.close()


def main() -> None:
    """Compare, print and write the counts."""
    kinds = [*PATHS, "bound"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1_000, help="of each format")
    parser.add_argument("--formats", default=",".join(kinds), help=f"of {', '.join(kinds)}")
    parser.add_argument("--out", help="a JSON file for the counts")
    options = parser.parse_args()
    different = 0
    for kind in options.formats.split(","):
        counts = compare(kind, options.requests)
        print(f"{kind}: {json.dumps(counts)}", flush=True)
        different += sum(count for name, count in counts.items() if "differ" in name)
        if options.out:
            put(options.out, kind, dict(counts))
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
