"""The run of the judge: which anchor is measured under which method, in which order."""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agora_lab.judge.anchors import Anchor, lot
from agora_lab.judge.making import PromptMaker
from agora_lab.judge.records import DrawnAnchor, Measured, Prompts
from agora_lab.judge.rendering import ModelTokens, Rendering
from agora_lab.judge.rows import FIRST, GATE, SECOND, Row
from agora_lab.judge.targets import marks

BLOCK = 6
"""Anchors per source after which the second methods get their turn."""
MARGIN = 2.0
"""Nats of the action that the floor has to lose for an anchor to count.

Two nats are a factor of seven in probability: well above what arithmetic and the position of a
token do to the sum over an action (a few tenths), and below what one missing id costs (five or
more). Fixed before anything was measured.
"""
Tick = Callable[[str], None]


class Writer(Protocol):
    """Knows what was measured, and writes down what is measured now."""

    measured: dict[tuple[str, str, float | None], Measured]
    anchors: dict[str, DrawnAnchor]

    def add(self, measured: Measured) -> None:
        """Write down what was measured."""
        ...

    def draw(self, anchor: DrawnAnchor) -> None:
        """Write down an anchor."""
        ...


class Scorer(Protocol):
    """Says how likely a continuation is."""

    def score(self, prompt: Sequence[int], continuation: Sequence[int]) -> Any:
        """Return the nats of each token, and what was read."""
        ...


def order(
    anchors: Sequence[Anchor],
    tokens: Callable[[Anchor], int],
    sizes: tuple[int, int],
    *,
    seed: int = 0,
) -> list[Anchor]:
    """Return the anchors of one source in the order in which they are measured.

    Prompts of at most `sizes[0]` tokens come first, then those of at most `sizes[1]`; longer ones
    are left out. Among them every task gets its first turn before any gets its second: intervals
    are by task. Within a turn the order is by lot.
    """
    few, most = sizes
    counted = [(anchor, tokens(anchor)) for anchor in anchors]
    turns: dict[str, int] = {}
    placed: list[tuple[bool, int, int, Anchor]] = []
    for anchor, size in sorted(counted, key=lambda one: (one[1] > few, lot(seed, one[0].key))):
        if size <= most:
            task = anchor.recorded.task
            turns[task] = turns.get(task, 0) + 1
            placed.append((size > few, turns[task], len(placed), anchor))
    return [one[-1] for one in sorted(placed, key=lambda one: one[:3])]


def blocks(queues: Mapping[str, Sequence[Anchor]], size: int = BLOCK) -> Iterator[list[Anchor]]:
    """Yield so many anchors of each source at a time.

    Those of one source come one after the other: their prompts begin alike, and what was read is
    kept.
    """
    for start in range(0, max(map(len, queues.values()), default=0), size):
        yield [anchor for queue in queues.values() for anchor in queue[start : start + size]]


@dataclass(slots=True)
class Judging:
    """Measures anchors with one model and writes down what it says."""

    run: Writer
    prompts: Prompts
    scorer: Scorer
    rendering: Rendering
    counter: ModelTokens
    margin: float = MARGIN
    given: Prompts | None = None
    """Prompts of another run to measure instead of making them: the same for both models."""
    making: PromptMaker = field(init=False)

    def __post_init__(self) -> None:
        """Make prompts as the model counts them."""
        self.making = PromptMaker(self.rendering, self.counter, self.given)

    @property
    def skipped(self) -> Mapping[str, str]:
        """The methods that cannot run here, and why."""
        return self.making.skipped

    def gate(self, anchor: Anchor) -> DrawnAnchor:
        """Measure everything and the floor at an anchor, and say whether it can tell anything."""
        known = self.run.anchors.get(anchor.key)
        if known is not None and known.gap is not None:
            return known
        self.measure(anchor, GATE)
        found = [self.run.measured.get((anchor.key, row.method, row.keep)) for row in GATE]
        whole, floor = found
        gap = None if whole is None or floor is None else round(floor.action - whole.action, 4)
        drawn = DrawnAnchor(
            anchor=anchor.key,
            source=anchor.recorded.source,
            kind=anchor.recorded.kind,
            task=anchor.recorded.task,
            half=anchor.half,
            step=anchor.step,
            tokens_whole=whole.tokens_whole if whole else 0,
            tokens_floor=floor.tokens_sent if floor else 0,
            needed=anchor.needed,
            passed=None if gap is None else gap >= self.margin,
            gap=gap,
        )
        self.run.draw(drawn)
        return drawn

    def measure(self, anchor: Anchor, rows: Sequence[Row]) -> None:
        """Measure an anchor under these methods, where that is missing."""
        missing = [
            row for row in rows if (anchor.key, row.method, row.keep) not in self.run.measured
        ]
        if not missing:
            return
        tools = anchor.recorded.tools
        whole = anchor.messages
        target = self.rendering.target(whole, anchor.target, tools)
        ids, spans = self.rendering.pieces(target)
        marked = marks(target, anchor.target, anchor.needed, spans)
        sizes = self.making.sizes(anchor)
        sent: dict[str, Any] = {}
        for row in missing:
            messages, error = self.making.fitted(anchor, row, sizes)
            if row.method in self.skipped:
                continue
            blank: dict[str, Any] = {
                "anchor": anchor.key,
                "source": anchor.recorded.source,
                "kind": anchor.recorded.kind,
                "task": anchor.recorded.task,
                "half": anchor.half,
                "method": row.method,
                "keep": row.keep,
                "tokens_whole": sizes[0],
                "tokens_floor": sizes[1],
                "tokens_sent": 0,
                "changed": False,
                "seconds": 0.0,
                "read_tokens": 0,
            }
            if error:
                self.run.add(Measured(**blank, error=error[:300]))
                continue
            prompt = self.making.token_ids(anchor, messages)
            scored = self.scorer.score(prompt, ids)
            blank |= {
                "tokens_sent": len(prompt),
                "changed": _same(messages) != _same(whole),
                "seconds": round(scored.seconds, 3),
                "read_tokens": scored.read_tokens,
            }
            pieces = tuple(
                (target[start:end], round(nats, 5), mark)
                for (start, end), nats, mark in zip(spans, scored.nats, marked, strict=True)
            )
            self.run.add(Measured(**blank, pieces=pieces))
            sent[row.label] = messages
        self.prompts.add(anchor.key, whole=whole, tools=tools, target=target, sent=sent)


@dataclass(frozen=True, slots=True)
class Job:
    """An anchor to measure under some methods, after the gate or past it."""

    anchor: Anchor
    rows: tuple[Row, ...]
    gate: bool
    """Whether the anchor has still to pass."""


def work(judging: Judging, job: Job) -> bool:
    """Do a job, and return whether its anchor passed.

    With the prompts of another run every anchor counts: it passed there.
    """
    if job.gate and not judging.gate(job.anchor).passed and judging.given is None:
        return False
    judging.measure(job.anchor, job.rows)
    return True


class Schedule:
    """What is measured when.

    The sources take turns. At each anchor everything and the floor come first; the others only
    where the floor loses the margin. After a block of each source the second methods are measured
    at its anchors. A source of which `most` anchors passed is left alone.
    """

    def __init__(
        self,
        queues: Mapping[str, Sequence[Anchor]],
        *,
        first: Sequence[Row] = FIRST,
        second: Sequence[Row] = SECOND,
        most: int = 1 << 30,
    ) -> None:
        self._first = tuple(first)
        self._second = tuple(second)
        self._most = most
        self._blocks = blocks(queues)
        self._waiting: deque[Job] = deque()
        self._passed: Counter[str] = Counter()
        self._again: list[Anchor] = []

    def next(self) -> Job | None:
        """Return the next job, or None if there is none left to begin."""
        while True:
            while self._waiting:
                job = self._waiting.popleft()
                if not job.gate or self._passed[job.anchor.recorded.source] < self._most:
                    return job
            self._waiting.extend(Job(one, self._second, gate=False) for one in self._again)
            self._again = []
            block = next(self._blocks, None)
            if block is None and not self._waiting:
                return None
            self._waiting.extend(Job(one, self._first, gate=True) for one in block or ())

    def done(self, job: Job, passed: bool) -> None:
        """Take note of a job that was finished."""
        if job.gate and passed:
            self._passed[job.anchor.recorded.source] += 1
            self._again.append(job.anchor)


def go(judging: Judging, schedule: Schedule) -> None:
    """Do all jobs of a schedule, one after the other."""
    while (job := schedule.next()) is not None:
        schedule.done(job, work(judging, job))


def _same(messages: Any) -> str:
    return json.dumps(messages, sort_keys=True, default=str)
