"""Writes `docs/results.md`: tables of what was measured, from the run files in `docs/results/`.

Run with nothing but the package installed: python docs/make_results.py
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("results")
PAGE = Path(__file__).with_name("results.md")
FILES = {
    "coverage.json": ("is what the next call needs still in the prompt", "just bench-coverage"),
    "gateway.json": (
        "what the gateway promises, figure by figure",
        "python -m benchmarks.gateway --out docs/results/gateway.json",
    ),
    "label-forms.json": ("forms of labels, compared", "python -m benchmarks.label_forms"),
    "labelling.json": ("labels on Ray: exactly once, rate, growth", "just bench-labelling"),
    "labels-qwen.json": ("labels by a language model", "agora label quality"),
    "labels-qwen-counterfactual.parquet": ("those labels, counterfactual", "agora label make"),
    "labels-qwen-likelihood.parquet": ("those labels, by likelihood", "agora label make"),
    "lpft-mpnet.json": ("an encoder trained as in the paper", "python -m benchmarks.encoders"),
    "lpft-mpnet.jsonl": ("its learning curve", "python -m benchmarks.encoders"),
    "scorer-features.json": ("how well scorers rank needed steps", "python -m benchmarks.scorer"),
}


def page() -> str:
    """Return the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Results"
    yield ""
    yield (
        "Tables made from the run files by `docs/make_results.py`; a test compares them. Brackets "
        "are 95 % intervals, resampled by task. What was tried around each, and what failed, "
        "stands in the [log](log.md)."
    )
    yield ""
    yield from _scorers()
    yield ""
    yield from _coverage()
    yield ""
    yield "## Bills"
    yield ""
    yield (
        "[The bill](concepts/bill.md) has the schedules by price sheet (`just bench-bill`), "
        "[one story](guides/story.md) an agent in WebShop with and without AGORA "
        "(`python examples/story.py --conversations 10`)."
    )
    yield ""
    yield "## Run files"
    yield ""
    yield "| file | what it holds | made by |"
    yield "|---|---|---|"
    for name in sorted(path.name for path in FOLDER.iterdir() if path.suffix != ".md"):
        about, command = FILES.get(name, ("", ""))
        made = f"`{command}`" if command else ""
        yield f"| [{name}](results/{name}) | {about} | {made} |"


def _scorers() -> Iterator[str]:
    rows: list[dict[str, Any]] = json.loads(_read("scorer-features.json"))
    fresh = [row for row in rows if not row["stale_anchor"]]
    names = list(dict.fromkeys(row["scorer"] for row in fresh))
    yield "## How well scorers rank needed steps"
    yield ""
    yield (
        "AUC on tasks held out, recorded trajectories, labels from hindsight (a step is needed if "
        "the next action uses a name that only it had). The trained scorer learnt from labels of "
        "the same making, so this says how well it learnt them, not how an agent fares."
    )
    yield ""
    yield f"| trajectories | needed of pairs (tasks) | {' | '.join(names)} |"
    yield "|---" * (len(names) + 2) + "|"
    for place in dict.fromkeys(row["trajectories"] for row in fresh):
        own = {row["scorer"]: row for row in fresh if row["trajectories"] == place}
        first = own[names[0]]
        counts = f"{first['needed']:,} of {first['pairs']:,} ({first['tasks']})"
        cells = [_interval(own[name]["auc"]) for name in names]
        yield f"| {place} | {counts} | {' | '.join(cells)} |"


def _coverage() -> Iterator[str]:
    rows: list[dict[str, Any]] = json.loads(_read("coverage.json"))
    own = [row for row in rows if row["needed"] == "leaves"]
    shares = sorted({row["share"] for row in own})
    yield "## Is what the next call needs still in the prompt"
    yield ""
    yield (
        "Share of recorded calls all of whose argument values are still there, by how much of what "
        "lies outside the floor may stay. Being there does not mean that a model finds it."
    )
    yield ""
    heads = " | ".join(f"{share:.0%}" for share in shares)
    yield f"| domain (calls) | what stays | {heads} |"
    yield "|---" * (len(shares) + 2) + "|"
    for domain, stays in dict.fromkeys((row["domain"], row["what_stays"]) for row in own):
        found = {
            row["share"]: row
            for row in own
            if row["domain"] == domain and row["what_stays"] == stays
        }
        calls = next(iter(found.values()))["calls"]
        cells = [_interval([found[s]["covered"], *found[s]["interval"]]) for s in shares]
        yield f"| {domain} ({calls}) | {stays} | {' | '.join(cells)} |"


def _interval(values: list[float]) -> str:
    value, low, high = values
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
