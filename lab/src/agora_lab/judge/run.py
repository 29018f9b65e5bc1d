"""How likely a language model finds the recorded next action, under each shortened prompt.

A run is one file of lines, a row for each scored prompt. An anchor's gap is the loss of its *floor*
(no old step) against *everything* (all steps). A method is measured on anchors with a gap of at
least the margin, by the share of the gap that it closes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agora.errors import AgoraError
from agora_lab.bootstrap import interval
from agora_lab.jsonl import append, open_lines, read_lines
from agora_lab.judge.anchors import Anchor, anchors_of, half_of, lot
from agora_lab.judge.rendering import ModelTokens, Rendering
from agora_lab.judge.sources import SOURCES, recorded
from agora_lab.judge.targets import NEEDED, marks
from agora_lab.methods import MethodSettings, method

EVERYTHING, FLOOR = "everything", "floor"
METHODS: Mapping[str, str] = {
    EVERYTHING: "none",
    FLOOR: "sliding_window",
    "newest": "sliding_window",
    "commands_first": "commands_first",
    "agora": "agora",
}
"""The lab's methods by their names in a run; the floor is the newest steps with no room."""
MARGIN = 2.0
"""Nats of the action that the floor has to lose for an anchor to count.

Two nats are a factor of seven in probability: well above what arithmetic does to the sum over an
action (a few tenths), and below what one missing id costs (five or more).
"""
_SHARES_TRIED = 6
_SAMPLES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The model's view of the recorded action under one prompt."""

    anchor: str
    source: str
    task: str
    half: str
    method: str
    keep: float | None
    """The share of the tokens outside the floor; None for everything and the floor."""
    tokens_sent: int
    action: float
    """The surprise of the action, in nats."""
    needed: float | None
    """The part of it on names that only old steps have; None if the action has none."""


Rows = dict[tuple[str, str, float | None], Row]


def read_rows(file: Path) -> Rows:
    """Return the rows of a run by anchor, method and share; the last line of a key counts."""
    rows = (Row(**line) for line in read_lines(file)) if file.exists() else ()
    return {(row.anchor, row.method, row.keep): row for row in rows}


@dataclass(slots=True)
class Run:
    """Measures the rows that a run's file lacks."""

    file: Path
    scorer: Any
    """Its `score` of a prompt and a continuation has `nats` for each token of that."""
    rendering: Rendering
    tick: Callable[[str], None] = print
    rows: Rows = field(init=False)
    _counter: ModelTokens = field(init=False)

    def __post_init__(self) -> None:
        """Read the file."""
        self.rows = read_rows(self.file)
        self._counter = ModelTokens.of(self.rendering.tokenizer)

    def measure(
        self, anchors: Iterable[Anchor], methods: Sequence[str], share: float, most: int
    ) -> None:
        """Measure methods at the first `most` anchors that pass."""
        passed = 0
        for anchor in anchors:
            if passed == most:
                return
            whole = self.row(anchor, EVERYTHING, None)
            if self.row(anchor, FLOOR, None).action - whole.action < MARGIN:
                continue
            passed += 1
            for name in methods:
                try:
                    self.row(anchor, name, share)
                except AgoraError as error:
                    self.tick(f"{anchor.key}, {name}: {error}")

    def row(self, anchor: Anchor, name: str, keep: float | None) -> Row:
        """Return the row of a method at an anchor; score its prompt if the file has none."""
        key = anchor.key, name, keep
        if key not in self.rows:
            messages = self._prompt(anchor, name, keep)
            tools = anchor.recorded.tools
            target = self.rendering.target(anchor.messages, anchor.target, tools)
            ids, spans = self.rendering.pieces(target)
            marked = marks(target, anchor.target, anchor.needed, spans)
            prompt = self._tokens(anchor, messages)
            scored = list(zip(self.scorer.score(prompt, ids).nats, marked, strict=True))
            row = Row(
                anchor=anchor.key,
                source=anchor.recorded.source,
                task=anchor.recorded.task,
                half=anchor.half,
                method=name,
                keep=keep,
                tokens_sent=len(prompt),
                action=round(sum(nats for nats, mark in scored if mark), 4),
                needed=round(sum(nats for nats, mark in scored if mark == NEEDED), 4)
                if NEEDED in marked
                else None,
            )
            with open_lines(self.file) as lines:
                append(lines, asdict(row))
            self.rows[key] = row
            self.tick(f"{anchor.key} {name}")
        return self.rows[key]

    def _prompt(self, anchor: Anchor, name: str, keep: float | None) -> Sequence[Any]:
        """Return the longest prompt of a method that the share allows.

        Methods count differently, and whole steps seldom fit exactly. So each is asked with several
        shares, and what counts is what would be sent.
        """
        if keep is None:
            return self._shortened(anchor, name, 0.0)
        sizes = [
            len(self._tokens(anchor, self._shortened(anchor, bound, 0.0)))
            for bound in (EVERYTHING, FLOOR)
        ]
        most = sizes[1] + keep * (sizes[0] - sizes[1])
        low, high, share = 0.0, min(1.0, 2 * keep), keep
        tried: list[tuple[int, Sequence[Any]]] = []
        for _ in range(_SHARES_TRIED):
            messages = self._shortened(anchor, name, share)
            tried.append((len(self._tokens(anchor, messages)), messages))
            low, high = (share, high) if tried[-1][0] <= most else (low, share)
            share = (low + high) / 2
        fitting = [prompt for prompt in tried if prompt[0] <= most]
        if fitting:
            return max(fitting, key=lambda prompt: prompt[0])[1]
        # A method that has to keep more than the share keeps as little as it can.
        return min(tried, key=lambda prompt: prompt[0])[1]

    def _shortened(self, anchor: Anchor, name: str, share: float) -> Sequence[Any]:
        options: dict[str, Any] = {"share": share, "counter": self._counter}
        if name == "agora":
            options["edits"] = "every_call"
        settings = MethodSettings(observations=anchor.recorded.observations, options=options)
        made = method(METHODS[name], settings if name != EVERYTHING else None)
        return list(made.shorten(anchor.messages).messages)

    def _tokens(self, anchor: Anchor, messages: Sequence[Any]) -> Sequence[int]:
        return self.rendering.token_ids(self.rendering.prompt(messages, anchor.recorded.tools))


def drawn(
    source: str, half: str, rendering: Rendering, *, most_tokens: int, known: Rows
) -> Iterator[Anchor]:
    """Yield the anchors of one half of a source: those of the run first, the others by lot.

    Raises:
        ValueError: There is no source of that name.
    """
    if source not in SOURCES:
        raise ValueError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    before = {anchor for anchor, _, _ in known}
    anchors = [
        anchor
        for trajectory in recorded(SOURCES[source])
        if half_of(source, trajectory.group) == half
        for anchor in anchors_of(trajectory)
    ]
    anchors.sort(key=lambda anchor: (anchor.key not in before, lot(0, anchor.key)))
    for anchor in anchors:
        prompt = rendering.prompt(anchor.messages, anchor.recorded.tools)
        if anchor.key in before or len(rendering.token_ids(prompt)) <= most_tokens:
            yield anchor


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of the gaps that one method closes, and its lead over another."""

    method: str
    keep: float
    anchors: int
    tasks: int
    share: tuple[float, float, float]
    """The point and the bounds of the 95 % interval; whole tasks are resampled."""
    ahead: tuple[float, float, float] | None = None


def shares(
    rows: Rows, *, sources: Sequence[str], half: str, target: str = "action", against: str = ""
) -> list[Share]:
    """Return a share for each method of a run, and with `against` the paired difference.

    >>> shares({}, sources=["airline"], half="test")
    []
    """
    found = []
    for name, keep in sorted({(m, k) for _, m, k in rows if k is not None}):
        other = against if against and against != name else ""
        lost: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
        for (anchor, method_name, share), row in rows.items():
            if (method_name, share) != (name, keep) or row.source not in sources:
                continue
            trio = [rows.get(key) for key in ((anchor, EVERYTHING, None), (anchor, FLOOR, None))]
            beside = rows.get((anchor, other, keep)) if other else row
            values = [_nats(at, target) for at in (*trio, row, beside)]
            if row.half == half and None not in values:
                whole, floor, ours, theirs = (value or 0.0 for value in values)
                losses = floor - whole, ours - whole, theirs - whole
                lost.setdefault((row.source, row.task), []).append(losses)
        if not lost:
            continue
        sums = np.array([np.sum(at, axis=0) for at in lost.values()])
        picks = np.random.default_rng(0).integers(len(sums), size=(_SAMPLES, len(sums)))
        samples = np.vstack([sums.sum(axis=0), sums[picks].sum(axis=1)])
        won = 1 - samples[:, 1] / samples[:, 0]
        ahead = won - (1 - samples[:, 2] / samples[:, 0])
        found.append(
            Share(
                method=name,
                keep=keep,
                anchors=sum(map(len, lost.values())),
                tasks=len(lost),
                share=(float(won[0]), *interval(won[1:])),
                ahead=(float(ahead[0]), *interval(ahead[1:])) if other else None,
            )
        )
    return found


def _nats(row: Row | None, target: str) -> float | None:
    return None if row is None else row.action if target == "action" else row.needed
