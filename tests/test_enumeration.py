"""Every legal history up to a length, under every budget: nothing illegal comes out.

CI goes to five messages; `just enumerate` (or AGORA_ENUMERATE=7) goes to seven.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest

from agora import Budget, Compression, Compressor, Query, Reason, Scorer, Step
from agora.formats import make_request, parse
from agora.scorers import RecencyScorer
from harness import shortened
from tests.histories_exhaustive import SPELLINGS, History, Spelling, histories

_CI_LONGEST = 4
_LONGEST = 7
_EVERY_LIMIT_LONGEST = 5
"""Up to this length the budget takes every value there is, one by one."""
_K_RECENT = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class OldestFirst:
    """Scores the oldest step highest, so that runs of elided steps lie at the end as well."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        return [1 / (place + 1) for place in range(len(steps))]


@dataclass(slots=True)
class Tally:
    """What the walk saw."""

    histories: int = 0
    compressions: int = 0
    changed: int = 0
    illegal: int = 0
    with_steps: int = 0
    shortened: int = 0

    def line(self, name: str, seconds: float) -> str:
        return (
            f"{name}: {self.histories:,} histories ({self.with_steps:,} with steps, "
            f"{self.shortened:,} shortened), {self.compressions:,} compressions "
            f"({self.changed:,} changed), {self.illegal} illegal, {seconds:.0f} s"
        )


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_no_legal_history_of_up_to_four_messages_is_made_illegal(
    spelling: Spelling, capsys: pytest.CaptureFixture[str]
) -> None:
    _walk(spelling, int(os.environ.get("AGORA_ENUMERATE", _CI_LONGEST)), capsys)


@pytest.mark.long
@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_no_legal_history_of_up_to_seven_messages_is_made_illegal(
    spelling: Spelling, capsys: pytest.CaptureFixture[str]
) -> None:
    _walk(spelling, _LONGEST, capsys)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_the_walk_would_see_what_keeping_the_last_four_messages_breaks(
    spelling: Spelling, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = broken = 0
    codes: Counter[str] = Counter()
    for history in histories(spelling, 6):
        seen += 1
        system = [m for m in history.messages[:-4] if m.get("role") == "system"]
        found = history.broken([*system, *history.messages[-4:]])
        broken += bool(found)
        codes.update(found)

    with capsys.disabled():
        share = broken / seen
        print(f"\n{spelling.name}: keep-last-4 breaks {broken:,} of {seen:,}, {share:.0%} {codes}")  # noqa: T201
    assert broken > 0.05 * seen


def _walk(spelling: Spelling, longest: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    begun = time.perf_counter()
    for history in histories(spelling, longest):
        tally.histories += 1
        changed = tally.changed
        _try_all(history, tally)
        # The newest step is never elided. With one more after it, every step of the word can be.
        followed = spelling.write(history.word + "CR")
        if followed is not None and not followed.broken():
            tally.with_steps += _try_all(followed, tally) > 1
        tally.shortened += tally.changed > changed

    with capsys.disabled():
        print("\n" + tally.line(spelling.name, time.perf_counter() - begun))  # noqa: T201
    assert tally.illegal == 0
    # A walk in which nothing is ever elided would show nothing.
    assert tally.shortened > 0.9 * tally.with_steps
    assert tally.changed > 0.25 * tally.compressions


def _try_all(history: History, tally: Tally) -> int:
    """Compress the history in every way, and return how many steps it has."""
    steps = 0
    for compression in _compressions(history):
        tally.compressions += 1
        steps = len(compression.decisions)
        _look(history, compression, tally)
    return steps


def _look(history: History, compression: Compression, tally: Tally) -> None:
    """Judge what came out from outside: by the validator, not by the compressor's own word."""
    assert compression.reason is not Reason.GUARD, (history.word, compression.detail)
    if compression.messages is history.messages:
        return
    tally.changed += 1
    options = {"before": history.messages, "strict": True}
    new = history.broken(compression.messages, **options) - history.broken(strict=True)
    if new:
        tally.illegal += 1
    assert not new, (history.word, new, compression.messages)


def _compressions(history: History) -> Iterator[Compression]:
    """Yield the history compressed under every budget that tells two outcomes apart.

    A selection changes only where the budget passes what some set of steps
    costs. Then every selection there is, by pins, whatever a scorer might say.
    """
    whole = _compress(history, limit=1_000_000)
    yield whole
    trajectory = whole.trajectory
    if trajectory is None or not trajectory.steps:
        return
    if len(trajectory.steps) == 1:
        yield _compress(history)
        return
    costs = [(step.residue_tokens, step.tokens) for step in trajectory.steps]
    sums = {trajectory.fixed_tokens + sum(chosen) for chosen in product(*costs)}
    least = min(sums)
    limits = sorted({0, least - 1, trajectory.tokens, trajectory.tokens - 1} | sums)
    if len(history.word) <= _EVERY_LIMIT_LONGEST:
        limits = list(range(trajectory.tokens + 1))
    scorers: tuple[Scorer, ...] = (RecencyScorer(), OldestFirst())
    yield _compress(history, k_recent=len(costs))
    ks_recent = [k_recent for k_recent in _K_RECENT if k_recent < len(costs)]
    for limit, k_recent in product(limits, ks_recent):
        for scorer in scorers if len(costs) > 2 else scorers[:1]:
            yield _compress(history, limit=limit, k_recent=k_recent, scorer=scorer)
    yield from _every_form(history, whole)
    for chosen in product((False, True), repeat=len(costs)):
        pins = [number for number, pinned in enumerate(chosen, start=1) if pinned]
        yield _compress(history, pins=pins)
        thinks = history.format in ("anthropic", "bedrock") and "T" in history.word
        if thinks and not history.broken(thinking=True):
            yield _compress(history, pins=pins, thinking=True)


def _every_form(history: History, whole: Compression) -> Iterator[Compression]:
    """Yield the history with every form of every step, whatever it costs, as it is rendered."""
    request = make_request(history.messages, format=history.format, system=history.system)
    parsed = parse(request)
    steps = parsed.trajectory.steps[:-1]
    ways = [("whole",) if step.fixed else ("whole", "note", "line") for step in steps]
    for chosen in product(*ways):
        kinds = {step.number: kind for step, kind in zip(steps, chosen, strict=True)}
        elided = {
            number: f"look -> ok {number}" for number, kind in kinds.items() if kind != "whole"
        }
        noted = [number for number, kind in kinds.items() if kind == "note"]
        rendered = shortened.write(parsed, history.format, elided, noted)
        yield replace(whole, messages=rendered.messages if elided else history.messages)


def _compress(
    history: History,
    *,
    limit: int = 0,
    k_recent: int = 0,
    scorer: Scorer | None = None,
    pins: Sequence[int] = (),
    thinking: bool | None = None,
) -> Compression:
    compressor = Compressor(
        scorer=scorer or RecencyScorer(),
        budget=Budget(limit=limit),
        k_recent=k_recent,
        edits="every_call",
        # The guard would hide an illegal output behind the caller's own messages.
        strict=True,
    )
    return compressor.compress(
        history.messages,
        format=history.format,
        system=history.system,
        thinking=thinking,
        pins=pins,
    )


def test_a_late_result_of_a_call_made_before_the_task_stays_with_its_call() -> None:
    spelling = next(spelling for spelling in SPELLINGS if spelling.format == "responses")
    history = spelling.write("CUCRRCR")
    assert history is not None

    compression = _compress(history)

    assert compression.changed
    assert [item.get("call_id") for item in compression.messages] == [
        "call00001",
        None,
        "call00002",
        "call00002",
        "call00001",
        "call00003",
        "call00003",
    ]
