"""How much of a subscription's quota a session used, and what a cached token weighs in it.

Providers do not publish how their limits count cached tokens. Their answers tell how full a window
is, so the weights follow from the calls: with each the figure rose by so much, and so many tokens
of each kind were sent. Non-negative least squares over the calls gives what a token of each kind
weighs, and drawing the calls anew how sure that is.

The names of the headers are as they were seen; the provider does not document them.
"""

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

KINDS = ("fresh", "read", "written", "output")
WINDOWS = ("5h", "7d")
LEAST_TICKS = 8
"""So often a window has to have moved: four weights would fit anything less."""
MOST_CALLS = 5_000
"""Calls that are kept from earlier sessions: the newest."""
MOST_CHANGES = 600
"""Calls that the weights are of: the newest."""
_SMALL = 0.05
"""Of two kinds of new tokens, one that is a smaller share of the other is left out."""
_ROUNDS = 1_000
_NEAR = 1e-7
_DRAWS = 200
_OUTSIDE = 0.025
_KEPT_SHARE = 0.25
_CALLS_PER_EDIT = 12
"""What an edit leaves of what it writes again, and how many calls have to pay for it. With these a
cached token has to weigh .035 of a written one at 1.25: simulated at a weight of 0 edits cost 1.2
to 1.3 times as much quota as none, at .1 half as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What one call was billed, and how full the windows were after it."""

    tokens: tuple[int, int, int, int]
    """By `KINDS`."""
    used: Mapping[str, float]
    """By window, from 0 to 1."""
    resets: Mapping[str, str]
    """By window: when it begins anew."""
    input_left: float | None = None
    """What was left of an API key's input tokens a minute, from 0 to 1."""
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What a cached token weighs beside one that is not cached, with an interval of 95 %."""

    weight: float | None
    """None where what it is compared with seems to weigh nothing."""
    low: float
    high: float | None
    """None where the calls set no limit."""
    beside: str
    """What it is compared with, `fresh` or `written`: whichever there were more of."""
    changes: int
    """How many calls it is from."""
    written: float = 1.25
    """What a written token weighs beside one that is neither read nor written, where both are
    known; else as on the price list."""

    @property
    def break_even(self) -> float:
        """The weight below which an edit is not worth what it makes the provider write again."""
        written = 1.0 if self.beside == "written" else self.written
        return written * _KEPT_SHARE / ((1 - _KEPT_SHARE) * _CALLS_PER_EDIT)

    @property
    def edits_lose(self) -> bool:
        """Whether reads weigh so little that edits lose, beyond doubt."""
        return self.high is not None and self.high < self.break_even


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a session used of a provider's limits."""

    used: Mapping[str, float]
    """By window: the share of it that was used up in the session, by everybody on the account."""
    weight: Weight | None = None
    least_input_left: float | None = None
    status: str = ""
    """The provider's word for the account's state after the last call."""

    def words(self) -> str:
        """Return it as a part of a sentence; empty if nothing was told.

        >>> Quota(used={"5h": 0.042, "7d": 0.006}).words()
        "4.2% of the 5-hour quota and 0.6% of the week's used"
        """
        names = {"5h": "the 5-hour quota", "7d": "the week's"}
        said = [f"{self.used[one]:.1%} of {names[one]}" for one in WINDOWS if one in self.used]
        line = " and ".join(said) + (" used" if said else "")
        if self.weight is not None:
            one = self.weight
            beside = "a written one" if one.beside == "written" else "an uncached one"
            if one.high is None or one.weight is None:
                weighs = f"at least {one.low:.2f}"
            else:
                weighs = f"{one.weight:.2f} [{one.low:.2f}, {one.high:.2f}]"
            line += f", where a cached token counts as {weighs} of {beside} ({one.changes} calls)"
        if self.least_input_left is not None and not said:
            line = f"at least {self.least_input_left:.0%} of the key's input tokens per minute left"
        return line


def read_calls(path: Path) -> list[Call]:
    """Return what a gateway wrote down; nothing where there is nothing that can be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [call for line in lines if (call := _call(line)) is not None]


def keep(path: Path, earlier: Path, most: int = MOST_CALLS) -> None:
    """Add the lines of a session to those of earlier ones, of which the newest stay."""
    lines: list[str] = []
    for one in (earlier, path):
        if one.is_file():
            lines += one.read_text(encoding="utf-8").splitlines()
    if lines:
        earlier.parent.mkdir(parents=True, exist_ok=True)
        earlier.write_text("".join(f"{line}\n" for line in lines[-most:]), encoding="utf-8")


def quota_of(calls: Sequence[Call], earlier: Sequence[Call] = ()) -> Quota | None:
    """Return what a session used, None if no answer told; the weight is from earlier ones too."""
    used = {}
    for window in WINDOWS:
        known = [call for call in calls if window in call.used]
        if known:
            runs = list(_runs(known, window))
            used[window] = sum(run[-1].used[window] - run[0].used[window] for run in runs)
    left = [call.input_left for call in calls if call.input_left is not None]
    if not used and not left:
        return None
    return Quota(
        used=used,
        weight=weight_of((*earlier, *calls)),
        least_input_left=min(left) if left else None,
        status=calls[-1].status,
    )


def weight_of(calls: Sequence[Call], window: str = "5h") -> Weight | None:
    """Return what a cached token weighs, None if too little is known to say.

    The interval is of the ratios that fit the calls drawn anew: those at which what was read, at
    the ratio, and what it is compared with weigh the same in neither too few nor too many draws.
    No draw is divided by, so that one in which the divisor is nearly nothing does no harm.
    """
    known = [call for call in calls if window in call.used]
    changes = [one for run in _runs(known, window) for one in _changes(run, window)]
    changes = changes[-MOST_CHANGES:]
    fresh, read, written, output = range(4)
    totals = [sum(tokens[kind] for tokens, _ in changes) for kind in range(4)]
    beside, other = (written, fresh) if totals[written] > totals[fresh] else (fresh, written)
    ticks = sum(rose > 0 for _, rose in changes)
    if ticks < LEAST_TICKS or not totals[read] or not totals[beside]:
        return None
    columns = [read, beside, output]
    if totals[other] > _SMALL * totals[beside]:
        columns.append(other)
    rows = [(tuple(tokens[kind] for kind in columns), rose) for tokens, rose in changes]
    found = weights(rows)
    source, draws = random.Random(0), []
    for _ in range(_DRAWS):
        times = [0] * len(rows)
        for at in source.choices(range(len(rows)), k=len(rows)):
            times[at] += 1
        draws.append(_solved(rows, times, least=-math.inf)[:2])
    low, high = _fitting(draws)
    both = len(columns) > 3 and found[1] > 0
    return Weight(
        weight=found[0] / found[1] if found[1] else None,
        low=low,
        high=high,
        beside=KINDS[beside],
        changes=len(rows),
        written=found[3] / found[1] if both and beside == fresh else 1.25,
    )


def _fitting(draws: Sequence[Sequence[float]]) -> tuple[float, float | None]:
    """Return the least and the greatest ratio that fits the draws of two weights."""
    outside = int(_OUTSIDE * len(draws))
    low, high = _RATIOS[-1], _RATIOS[0]
    for ratio in _RATIOS:
        gaps = sorted(one - ratio * other for one, other in draws)
        if gaps[outside] <= 0:
            low = min(low, ratio)
        if gaps[-1 - outside] >= 0:
            high = ratio
    return low, None if high == _RATIOS[-1] else max(low, high)


_RATIOS = (
    *(n / 500 for n in range(100)),
    *(0.2 + n / 50 for n in range(90)),
    *(2 + n / 5 for n in range(41)),
)
Change = tuple[tuple[int, ...], float]
"""Tokens by kind, and by how much a window filled meanwhile."""


def weights(changes: Sequence[Change]) -> list[float]:
    """Return what a token of each kind adds to the window: non-negative least squares.

    >>> [round(one, 3) for one in weights([((1, 0), 2.0), ((0, 1), -1.0), ((1, 1), 2.0)])]
    [2.0, 0.0]
    """
    return _solved(changes, [1] * len(changes))


def _solved(changes: Sequence[Change], times: Sequence[int], *, least: float = 0.0) -> list[float]:
    """Return the weights, none below `least`, where each change counts so many times."""
    kinds = range(len(changes[0][0]))
    counted = [(*one, n) for one, n in zip(changes, times, strict=True) if n]
    # In units in which the kinds are alike: tokens read are a hundred times those written.
    scales = [math.sqrt(sum(n * t[k] * t[k] for t, _, n in counted)) or 1.0 for k in kinds]
    products = [[0.0 for _ in kinds] for _ in kinds]
    for i in kinds:
        for j in range(i, len(kinds)):
            value = sum(n * t[i] * t[j] for t, _, n in counted) / (scales[i] * scales[j])
            products[i][j] = products[j][i] = value
    aims = [sum(n * t[k] * rose for t, rose, n in counted) / scales[k] for k in kinds]
    found = [0.0 for _ in kinds]
    for _ in range(_ROUNDS):
        moved = 0.0
        for k in kinds:
            if not products[k][k]:
                continue
            rest = aims[k] - sum(products[k][j] * found[j] for j in kinds if j != k)
            new = max(least, rest / products[k][k])
            moved = max(moved, abs(new - found[k]))
            found[k] = new
        if moved <= _NEAR * max(map(abs, found)):
            break
    return [one / scale for one, scale in zip(found, scales, strict=True)]


def _runs(calls: Sequence[Call], window: str) -> Iterator[list[Call]]:
    """Yield the calls in stretches within which the window was not begun anew."""
    run: list[Call] = []
    for call in calls:
        if run and (
            call.used[window] < run[-1].used[window]
            or call.resets.get(window) != run[-1].resets.get(window)
        ):
            yield run
            run = []
        run.append(call)
    if run:
        yield run


def _changes(run: Sequence[Call], window: str) -> Iterator[Change]:
    """Yield what each call sent, and by how much the window had filled with it.

    Most windows are told in whole per cent, so that many calls change nothing and some too much.
    That is noise, and evens out; to wait for the next change and take its calls together does not.
    """
    for before, call in pairwise(run):
        yield call.tokens, call.used[window] - before.used[window]


def _call(line: str) -> Call | None:
    try:
        value = json.loads(line)
        told: dict[str, str] = value["told"]
        tokens = tuple(int(value[kind]) for kind in KINDS)
    except (ValueError, KeyError, TypeError):
        return None
    used = {one: _share(told.get(f"unified-{one}-utilization")) for one in WINDOWS}
    left, limit = (_number(told.get(f"input-tokens-{what}")) for what in ("remaining", "limit"))
    return Call(
        tokens=tokens,  # type: ignore[arg-type]
        used={one: share for one, share in used.items() if share is not None},
        resets={
            one: told[f"unified-{one}-reset"] for one in WINDOWS if f"unified-{one}-reset" in told
        },
        input_left=left / limit if left is not None and limit else None,
        status=told.get("unified-status", ""),
    )


def _share(value: Any) -> float | None:
    found = _number(value)
    return found if found is not None and found <= 100 else None


def _number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) and found >= 0 else None
