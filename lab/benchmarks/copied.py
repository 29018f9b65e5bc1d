"""How much of what the next action copies stands in each method's prompt. No model is asked.

At the judge's anchors of the validation half, prompts of the same size (`agora lab fidelity`). What
counts: runs of eight tokens of the action that stand in the whole prompt and not in the floor, as a
share of all of them and as the mean over anchors; and names of the same kind. Presence is not use;
but nothing can be copied that is not there.

    python -m lab.benchmarks.copied --model FOLDER [--source coding] [--anchors 60] [--keep 0.25]

FOLDER holds the judge's tokenizer, by which prompts are counted.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from agora.core.identifiers import identifiers
from agora_lab.fidelity.anchors import Anchor
from agora_lab.fidelity.making import PromptMaker
from agora_lab.fidelity.queue import queue
from agora_lab.fidelity.rendering import ModelTokens, Rendering
from agora_lab.fidelity.rows import FLOOR, Row

METHODS = ("newest", "commands_first", "default", "forms_worth")
SIZES = 6_000, 8_000
_RUN = 8
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(slots=True)
class Tally:
    """What was needed and what was there, anchor by anchor."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    names: list[tuple[int, int]] = field(default_factory=list)

    def row(self) -> dict[str, float]:
        """Return the shares."""
        several = [one for one in self.runs if one[0]]
        return {
            "anchors": len(self.runs),
            "runs": sum(needed for needed, _ in self.runs),
            "runs there": _share(self.runs),
            "runs there, mean": round(
                sum(there / needed for needed, there in several) / max(1, len(several)), 4
            ),
            "names": sum(needed for needed, _ in self.names),
            "names there": _share(self.names),
        }


def _share(several: Sequence[tuple[int, int]]) -> float:
    return round(
        sum(there for _, there in several) / max(1, sum(needed for needed, _ in several)), 4
    )


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a message, those inside JSON arguments too."""
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            try:
                yield from texts(json.loads(value))
            except ValueError:
                return
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from texts(one)


def runs(text: str) -> list[tuple[str, ...]]:
    """Return all runs of eight tokens."""
    tokens = _TOKEN.findall(text)
    return [tuple(tokens[at : at + _RUN]) for at in range(len(tokens) - _RUN + 1)]


def measure(making: PromptMaker, anchor: Anchor, keep: float, tallies: dict[str, Tally]) -> None:
    """Add what the methods keep at an anchor, if it needs anything."""
    sizes = making.sizes(anchor)
    whole, target = "\n".join(texts(anchor.messages)), "\n".join(texts(anchor.target))
    floor = "\n".join(texts(making.fitted(anchor, Row(FLOOR, None), sizes)[0]))
    there, held = set(runs(whole)), set(runs(floor))
    needed = [run for run in runs(target) if run in there and run not in held]
    names = [name for name in identifiers(target) if name in whole and name not in floor]
    if not needed and not names:
        return
    for method, tally in tallies.items():
        messages, error = making.fitted(anchor, Row(method, keep), sizes)
        sent = "" if error else "\n".join(texts(messages))
        found = set(runs(sent))
        tally.runs.append((len(needed), sum(run in found for run in needed)))
        tally.names.append((len(names), sum(name in sent for name in names)))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--source", default="coding")
    parser.add_argument("--anchors", type=int, default=60)
    parser.add_argument("--keep", type=float, default=0.25)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--json", type=Path, help="write the figures here")
    chosen = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(chosen.model)
    rendering = Rendering(tokenizer)
    making = PromptMaker(rendering, ModelTokens.of(tokenizer))
    tallies = {method: Tally() for method in chosen.methods.split(",")}
    for anchor in queue(chosen.source, "validation", rendering, SIZES)[: chosen.anchors]:
        measure(making, anchor, chosen.keep, tallies)
    found = {method: tally.row() for method, tally in tallies.items()}
    for method, row in found.items():
        print(f"{method:16s} {row}")
    if chosen.json:
        chosen.json.write_text(
            json.dumps({"source": chosen.source, "keep": chosen.keep, "methods": found}, indent=1)
            + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
