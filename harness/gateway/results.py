"""The gateway's figures in one file, and the guide's table made from it.

python -m harness.gateway.results     puts the table of docs/results/gateway.json into the guide
"""

import json
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


def kept(file: str, part: str) -> Figures:
    """Return the figures of one part as the file has them; nothing where it has none."""
    path = Path(file)
    known: Figures = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found: Figures = known.get(part, {})
    return found


def put(file: str, part: str, figures: Figures) -> None:
    """Put the figures of one part into the file; those of other parts stay."""
    path = Path(file)
    known: Figures = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    known[part] = {**figures, "date": when, "python": platform.python_version()}
    text = json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _counted(figures: Figures) -> str:
    return f"{figures['good']:,} of {figures['total']:,}"


def _cpu(case: str) -> Callable[[Figures], str]:
    def say(figures: Figures) -> str:
        found = [figures[f"{tokens} {case}"] for tokens in (10_000, 50_000, 100_000)]
        return ", ".join(
            f"{f['ratio']:.2f} [{f['interval'][0]:.2f}, {f['interval'][1]:.2f}]" for f in found
        )

    return say


def _llama(mode: str) -> Callable[[Figures], str]:
    def say(figures: Figures) -> str:
        modes = figures["modes"]
        evaluated = modes[mode]["evaluated"]
        return f"{evaluated:,.0f} ({evaluated / modes['none']['evaluated']:.2f} of none)"

    return say


Row = tuple[str, str, str, Callable[[Figures], str]]
ROWS: tuple[Row, ...] = (
    ("G6 bodies that go on byte for byte", "all of 10,000", "fidelity", _counted),
    ("G14 streams split anywhere, the same bytes", "all of 10,000", "streams", _counted),
    (
        "G14 time to the first byte, added at p99",
        "≤ 5 ms",
        "first-byte",
        lambda f: f"{f['added_p99_ms']:.2f} ms (n = {f['requests']:,})",
    ),
    ("G15 truncations that are loud", "all of 1,000", "truncations", _counted),
    (
        "G16 disconnects heard within 1 s",
        "24 of 24",
        "disconnects",
        lambda f: f"{_counted(f)}, slowest {f['notes']['slowest_s']:.2f} s",
    ),
    (
        "G17 answers above the cap: 503, Retry-After",
        "≤ 10 ms",
        "overload",
        lambda f: (
            f"{_counted(f)}, median {f['notes']['median_503_ms']:.1f} ms, "
            f"slowest {f['notes']['slowest_503_ms']:.1f} ms"
        ),
    ),
    (
        "G17 memory of 1,000 open streams",
        "≤ 150 MB",
        "idle-streams",
        lambda f: f"{f['more_mb']:.0f} MB ({f['streams']:,} streams)",
    ),
    (
        "G18 SIGTERM with 200 streams",
        "not ready ≤ 1 s, all end whole",
        "drain",
        lambda f: (
            f"not ready after {f['not_ready_s']:.2f} s, {f['whole']} of {f['streams']}, "
            f"exit after {f['exit_s']:.1f} s of {f['grace_s']} s"
        ),
    ),
    (
        "G19 memory after 100,000 requests against 10,000",
        "≤ 1.05",
        "soak",
        lambda f: (
            f"{f['ratio']:.3f}; against the half of them {f['ratio_to_half']:.3f} "
            f"({f['requests']:,} requests, {f['failed']} failed, "
            f"open files {f['files_early']} → {f['files_late']})"
        ),
    ),
    (
        "G20 requests made up by schemathesis, 5xx",
        "0 of 50,000",
        "conformance",
        lambda f: f"{f['wrong']} of {f['requests']:,}",
    ),
    (
        "G21 faults inside, seen outside",
        "0 of 12 kinds",
        "faults",
        lambda f: (
            f"{f['total'] - f['good']} of {f['total']} requests, {f['notes']['faults']} kinds"
        ),
    ),
    (
        "G22 refused edits rescued, requests sent for one",
        "all, ≤ 1.1",
        "rescue",
        lambda f: f"{_counted(f)}, {f['notes']['amplification']:.3f}",
    ),
    (
        "G12 scores by the rule, 334 steps, one of them new, p99",
        "≤ 5 ms",
        "rule",
        lambda f: (
            f"{f['scores']['p99_ms']:.1f} ms; with the choice {f['choice']['p99_ms']:.1f} ms "
            f"({f['calls']} calls, {f['tokens']:,} tokens)"
        ),
    ),
    (
        "G13 /livez p99 while eight clients send 1 MiB",
        "≤ 100 ms",
        "livez",
        lambda f: (
            f"{f['compressed']['p99_ms']:.1f} ms; passed on {f['passed on']['p99_ms']:.1f} ms"
        ),
    ),
    ("CPU passed through, as a ratio to bare", "≤ 1.3", "cpu", _cpu("pass-through")),
    (
        "CPU compressed, as a conversation grows",
        "≤ 2",
        "cpu",
        _cpu("compressed, as a conversation grows"),
    ),
    (
        "CPU compressed by recency without lines, as it grows",
        "≤ 2",
        "cpu",
        _cpu("by recency without lines, as a conversation grows"),
    ),
    ("CPU compressed, never seen before", "none", "cpu", _cpu("compressed, never seen before")),
    (
        "Tokens llama.cpp evaluated, 60 steps, paper: every call",
        "none",
        "llama",
        _llama("paper: every call"),
    ),
    ("The same, AGORA with cached tokens at 0.02", "none", "llama", _llama("AGORA, read 0.02")),
)


def table(known: Figures) -> str:
    """Return the table of the guide."""
    lines = ["| what | bar | measured |", "|---|---|---|"]
    for name, bar, part, say in ROWS:
        measured = say(known[part]) if part in known else "not measured"
        lines.append(f"| {name} | {bar} | {measured} |")
    return "\n".join(lines)


RESULTS = "docs/results/gateway.json"
GUIDE = "docs/guides/gateway-measured.md"
_BEGIN, _END = "<!-- figures -->\n", "\n<!-- /figures -->"


def with_table(guide: str, known: Figures) -> str:
    """Return the guide with the table of these figures in its place."""
    before, _, rest = guide.partition(_BEGIN)
    return f"{before}{_BEGIN}{table(known)}{_END}{rest.partition(_END)[2]}"


def main() -> None:
    """Put the table into the guide."""
    known = json.loads(Path(RESULTS).read_text(encoding="utf-8"))
    guide = Path(GUIDE)
    guide.write_text(with_table(guide.read_text(encoding="utf-8"), known), encoding="utf-8")
    print(table(known))


if __name__ == "__main__":
    main()
