"""The files of a run: its plan, its anchors, what was measured, and the prompts behind it."""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agora_lab.jsonl import append, open_lines, read_lines

PLAN = "plan.json"
ANCHORS = "anchors.jsonl"
RECORDS = "fidelity.jsonl"
PROMPTS = "prompts"
_FIXED = ("model", "margin", "seed", "arithmetic")
"""What two parts of one run must have in common."""
Piece = tuple[str, float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAnchor:
    """An anchor, and whether it can tell methods apart."""

    anchor: str
    source: str
    kind: str
    task: str
    half: str
    step: int
    tokens_whole: int
    tokens_floor: int
    needed: tuple[str, ...]
    passed: bool | None
    """Whether `gap` reaches the margin of the plan; None if it could not be measured."""
    gap: float | None
    """How many nats of the action the floor loses against everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a model says of the target under one prompt."""

    anchor: str
    source: str
    kind: str
    task: str
    half: str
    method: str
    keep: float | None
    tokens_whole: int
    tokens_floor: int
    tokens_sent: int
    changed: bool
    seconds: float
    read_tokens: int
    error: str = ""
    pieces: tuple[Piece, ...] = field(default=())
    """The tokens of the target: text, nats, and its mark: ``""``, `action` or `needed`."""

    @property
    def key(self) -> tuple[str, str, float | None]:
        """What it is the only one of."""
        return self.anchor, self.method, self.keep

    @property
    def action(self) -> float:
        """The nats of the action."""
        return sum(nats for _, nats, mark in self.pieces if mark)


class Run:
    """The folder of a run, open for writing; what it already holds is read first."""

    def __init__(self, folder: Path) -> None:
        """Open and lock the folder.

        Raises:
            BusyError: another process is writing to it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._records = open_lines(folder / RECORDS)
        self._anchors = open_lines(folder / ANCHORS)
        self.measured = {one.key: one for one in read_measured(folder)}
        self.anchors = {one.anchor: one for one in read_anchors(folder)}

    def add(self, measured: Measured) -> None:
        """Write down what was measured."""
        append(self._records, asdict(measured))
        self.measured[measured.key] = measured

    def draw(self, anchor: DrawnAnchor) -> None:
        """Write down an anchor."""
        append(self._anchors, asdict(anchor))
        self.anchors[anchor.anchor] = anchor

    def plan(self, plan: Mapping[str, Any]) -> None:
        """Write the plan, once: what was fixed before a run stays fixed, but for a further half.

        Raises:
            ValueError: the folder holds another plan; the message says where they differ.
        """
        file = self.folder / PLAN
        fixed = dict(plan)
        if file.exists():
            before = json.loads(file.read_text(encoding="utf-8"))
            differs = [key for key in _FIXED if before[key] != fixed[key]]
            if differs:
                said = ", ".join(f"{key} {before[key]!r}, not {fixed[key]!r}" for key in differs)
                raise ValueError(f"{file} fixed {said}; use the same, or another folder")
            halves = [*dict.fromkeys([*before.get("halves", ()), *fixed.get("halves", ())])]
            fixed = before | {"halves": halves}
        file.write_text(json.dumps(fixed, indent=1) + "\n", encoding="utf-8")

    def close(self) -> None:
        """Close the files."""
        self._records.close()
        self._anchors.close()


def read_measured(folder: Path) -> Iterator[Measured]:
    """Yield what was measured without an error, the latest under each key."""
    found: dict[tuple[str, str, float | None], Measured] = {}
    for value in read_lines(folder / RECORDS):
        one = Measured(**{**value, "pieces": tuple(map(tuple, value["pieces"]))})
        if not one.error:
            found[one.key] = one
    yield from found.values()


def read_anchors(folder: Path) -> Iterator[DrawnAnchor]:
    """Yield the anchors that were drawn, each as it was last written."""
    found: dict[str, DrawnAnchor] = {}
    for value in read_lines(folder / ANCHORS):
        found[value["anchor"]] = DrawnAnchor(**{**value, "needed": tuple(value["needed"])})
    yield from found.values()


def write_without_texts(run: Path, folder: Path) -> None:
    """Copy a run without any text of its data: to publish it, or to go on elsewhere.

    Of each token its nats and its mark stay, so a report says the same.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PLAN).write_bytes((run / PLAN).read_bytes())
    anchors = (asdict(one) | {"needed": ()} for one in read_anchors(run))
    rows = (
        asdict(one) | {"pieces": [("", nats, mark) for _, nats, mark in one.pieces]}
        for one in read_measured(run)
    )
    for name, values in ((ANCHORS, anchors), (RECORDS, rows)):
        lines = (json.dumps(value, separators=(",", ":")) + "\n" for value in values)
        (folder / name).write_text("".join(lines), encoding="utf-8")


def safe(key: str) -> str:
    """Return an anchor's key as the name of a file.

    >>> safe("airline|a.json:1|8").rpartition("-")[0]
    'airline_a.json_1_8'
    """
    digest = hashlib.blake2b(key.encode(), digest_size=4).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9.]+', '_', key)[:80]}-{digest}"


class Prompts:
    """The prompts that were sent, one file per anchor, for other judges and for people."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / PROMPTS
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, key: str) -> dict[str, Any] | None:
        """Return what is known of an anchor's prompts."""
        file = self.folder / f"{safe(key)}.json.gz"
        if not file.exists():
            return None
        value: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
        return value

    def add(
        self,
        key: str,
        *,
        whole: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        target: str,
        sent: Mapping[str, Sequence[Mapping[str, Any]]],
    ) -> None:
        """Write the prompts of an anchor, in addition to those that are there."""
        before = self.read(key) or {"sent": {}}
        value = {
            "anchor": key,
            "whole": whole,
            "tools": tools,
            "target": target,
            "sent": {**before["sent"], **sent},
        }
        file = self.folder / f"{safe(key)}.json.gz"
        draft = file.with_suffix(".part")
        # Without a date the same prompts are the same bytes.
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        draft.write_bytes(gzip.compress(data, mtime=0))
        draft.rename(file)
