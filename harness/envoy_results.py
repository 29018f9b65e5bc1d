"""The figures of the filter in Envoy, put into the pages that tell them.

python -m harness.envoy_results     puts the tables of docs/results into the pages
"""

import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
RESULTS = "docs/results/envoy.json"
PRICES = "docs/results/prices-llama.json"
GUIDE = "docs/guides/envoy.md"
MEASURED = "docs/guides/envoy-measured.md"
SCALE = "docs/scale.md"
RATE = 1_000
TOKENS = "100000"
_AT = 0.6
"""How much of a core a pod is meant to use: the autoscaler's target."""


def load(known: Figures) -> Iterator[str]:
    """Yield the table of what came through under load, size by size, and all of it."""
    found = known["load"]
    yield "| tokens | requests | conversations | different bodies | not the library's | errors |"
    yield "|---|---|---|---|---|---|"
    sizes = {f"{int(size):,}": of for size, of in found["sizes"].items()}
    for name, of in (*sizes.items(), ("all", found)):
        counts = ("requests", "conversations", "bodies", "differing", "failed")
        yield f"| {name} | " + " | ".join(f"{of[count]:,}" for count in counts) + " |"
    reasons = ", ".join(
        f"{count:,} {WORDS.get(reason, reason)}"
        for reason, count in sorted(found["reasons"].items(), key=lambda item: -item[1])
    )
    spent = {name: 1e3 * cpu / found["requests"] for name, cpu in found["cpu_seconds"].items()}
    runs = "one run" if found["runs"] == 1 else f"{found['runs']} runs"
    yield ""
    yield (
        f"By the filter's own count: {reasons}; {found['by_rule']} by the fallback rule. CPU a "
        f"request, over this mix: Envoy {spent['envoy']:.1f} ms, the filter {spent['filter']:.1f} "
        f"ms. {found['seconds'] / 60:.0f} minutes in {runs}."
    )


WORDS = {
    "compressed": "edited",
    "not_worth_it_yet": "not worth an edit yet",
    "below_threshold": "below the threshold",
}


def prices(known: Figures) -> Iterator[str]:
    """Yield what `agora prices measure` found at a real server, and the sheet it wrote."""
    cold, warm = known["cold"], known["warm"]
    longest = max(timed["tokens"] for timed in cold)
    slow, quick = (
        statistics.median(timed["seconds"] for timed in kind if timed["tokens"] == longest)
        for kind in (cold, warm)
    )
    yield "```toml"
    yield known["sheet"]
    yield "```"
    yield ""
    yield (
        f"A prompt of {longest:,} tokens took {slow:.0f} s, and {quick:.1f} s once more. Other "
        "work had most of both cores, so the seconds say little of the model; that a cached token "
        "costs next to nothing is what edits are timed by."
    )


def faults(known: Figures) -> Iterator[str]:
    """Yield the table of what clients saw of each fault, in both modes."""
    yield "| fault | buffered: errors, slowest | full duplex: errors, slowest |"
    yield "|---|---|---|"
    buffered, duplex = known["faults"], known["duplex"]
    for name, found in buffered.items():
        if isinstance(found, dict):
            yield f"| {name} | {_seen(found)} | {_seen(duplex[name])} |"
    kills, drain = known["kills"], known["drain"]
    yield (
        f"| {kills['kills']} times kill -9 under load | "
        f"{kills['failed']} of {kills['requests']:,} | not run |"
    )
    drained = f"{drain['errors']} of {drain['requests']:,}"
    yield f"| Envoy drains, then the filter | {drained} | not run |"


def _seen(found: Figures) -> str:
    statuses = "".join(f", {status} × {n}" for status, n in found["statuses"].items())
    errors = f"{found['errors']} of {found['requests']}"
    return f"{errors}, {found['slowest_ms']:,} ms{statuses if found['errors'] else ''}"


def fleet(known: Figures) -> Iterator[str]:
    """Yield the table of what so many requests a second take, from what one takes."""
    cost = known["cost"]
    both, gateway = cost["Envoy and filter"][TOKENS], cost["gateway"][TOKENS]
    bare = cost["bare Envoy"][TOKENS]
    yield f"| at 100,000 tokens | CPU a request | cores for {RATE:,} a second | pods at 60 % |"
    yield "|---|---|---|---|"
    for name, spent in (
        ("Envoy without the filter", bare["next_envoy_ms"]),
        ("Envoy with it, its own part", both["next_envoy_ms"]),
        ("the filter, conversations that it knows", both["next_filter_ms"]),
        ("the filter, conversations that it never saw", both["first_filter_ms"]),
        ("our gateway instead of both, known", gateway["next_gateway_ms"]),
        ("our gateway, never seen", gateway["first_gateway_ms"]),
    ):
        cores = spent * RATE / 1e3
        pods = math.ceil(cores / _AT)
        yield f"| {name} | {spent:.2f} ms | {cores:.1f} | {pods:,} |"
    size, room = cost["remembered_bytes"][TOKENS], cost["room_bytes"]
    yield ""
    yield (
        f"A conversation of that size takes {size / 1024:,.0f} KiB of a process's memory, and by "
        f"default there is room for {room // size:,} ({room >> 20} MiB of `memory_mb = 256`). "
        f"With ten seconds between two calls of an agent {RATE:,} a second are {10 * RATE:,} "
        f"conversations: {math.ceil(10 * RATE * size / room):,} pods by that room, or fewer with a "
        "larger `memory_mb`. What does not fit is read again, as if it had never been seen."
    )
    yield ""
    low, high = cost["load_average"]
    waits = [
        f"{door['next_p50_ms']} and {door['next_p99_ms']} ms" for door in (bare, both, gateway)
    ]
    yield (
        "Waiting, p50 and p99 in the same run (one request at a time, known conversations, "
        f"{cost['rounds']} rounds of {cost['calls_each']} calls, load average {low} to {high}): "
        f"bare Envoy {waits[0]}; with the filter {waits[1]}; our gateway {waits[2]}. On a machine "
        "this busy that is mostly waiting for a core."
    )


def with_table(page: str, name: str, lines: Iterator[str]) -> str:
    """Return a page with the lines between its marks of that name.

    >>> with_table("<!-- x -->\\nold\\n<!-- /x -->", "x", iter(["new"]))
    '<!-- x -->\\nnew\\n<!-- /x -->'
    """
    begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no place for {name}: {begin.strip()} ... {end.strip()}")
    return before + begin + "\n".join(lines) + end + after


PAGES = (
    (MEASURED, "load", load, RESULTS),
    (MEASURED, "faults", faults, RESULTS),
    (SCALE, "fleet", fleet, RESULTS),
    (GUIDE, "prices", prices, PRICES),
)


def main() -> None:
    """Write the tables."""
    for file, name, lines, results in PAGES:
        known = json.loads(Path(results).read_text(encoding="utf-8"))
        page = Path(file)
        made = with_table(page.read_text(encoding="utf-8"), name, lines(known))
        page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
