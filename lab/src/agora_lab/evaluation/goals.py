"""Goals set before the run, each met or not, with the figures that decide it."""

from collections.abc import Sequence
from dataclasses import dataclass

from agora_lab.evaluation.results import ALPHA, FLOOR, FLOOR_MATCHED, NONE, CellResult, Results
from agora_lab.evaluation.statistics import Estimate, average

DEFAULT = "agora"
EVERY_CALL = "agora_every_call"
RETAINED, RETAINED_EACH = 0.95, 0.75
COMPRESSED = 4.0
CHEAP_AND_GOOD = 0.90
ENVIRONMENTS_WON = 2
LOWEST_BILL = "the lowest bill"
SAME_COMPRESSION = 0.9
"""A method must reach this share of the floor's compression to be compared with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal, whether it was met, and the figures that decide it."""

    goal: str
    short: str
    """The goal in a few words, the same for all price sheets."""
    met: bool | None
    """None where the run cannot decide it."""
    edited: bool | None
    """Whether any call was edited in the cells that decide it."""
    says: str

    @property
    def word(self) -> str:
        """Whether it was met, in words; what was met by leaving every prompt alone says so."""
        if self.met is None:
            return "unknown"
        if not self.met:
            return "not met"
        return "met" if self.edited else "met, nothing edited"


def goals(results: Results, method: str = DEFAULT) -> list[Goal]:
    """Return whether a method met the goals, over the cells played by readers."""
    cells = [
        cell
        for cell in results.cells
        if cell.reader and cell.method == method and cell.audit.admitted
    ]
    return [
        _retention(cells),
        _each(cells),
        _compression(cells),
        _floor(results, cells, FLOOR, "beats the floor", "better than the floor"),
        *_at_every_call(results),
        _steps(cells),
        _duplicates(cells),
        *(_bill(results, sheet, method) for sheet in results.material.sheets),
    ]


def format_estimate(estimate: Estimate, digits: int = 2, unit: str = "") -> str:
    """Return an estimate with its interval and count.

    >>> format_estimate(Estimate(0.951, 0.9, 1.0, 30))
    '0.95 [0.90, 1.00], n = 30'
    """
    return (
        f"{estimate.value:.{digits}f}{unit} [{estimate.low:.{digits}f}, "
        f"{estimate.high:.{digits}f}], n = {estimate.n}"
    )


def _retention(cells: Sequence[CellResult]) -> Goal:
    goal = f"retains at least {RETAINED:.0%} of the reward, on average over reader cells"
    short = f"{RETAINED:.0%} of the reward"
    whole = average([cell.retention for cell in cells if cell.retention])
    if whole is None:
        return _undecided(goal, short)
    met = whole.estimate.value >= RETAINED
    return _goal(goal, short, met, format_estimate(whole.estimate, 3), cells)


def _each(cells: Sequence[CellResult]) -> Goal:
    goal = f"retains at least {RETAINED_EACH:.0%} in every reader cell"
    short = f"{RETAINED_EACH:.0%} in every world"
    there = [cell for cell in cells if cell.retention]
    if not there:
        return _undecided(goal, short)
    said = "; ".join(
        f"{c.environment} {format_estimate(c.retention.estimate)}" for c in there if c.retention
    )
    least = min(cell.retention.estimate.value for cell in there if cell.retention)
    return _goal(goal, short, least >= RETAINED_EACH, said, there)


def _compression(cells: Sequence[CellResult]) -> Goal:
    goal = f"reaches {COMPRESSED:.0f}x effective compression or more, on average"
    short = f"{COMPRESSED:.0f}x compression"
    whole = average([cell.compression for cell in cells if cell.compression])
    if whole is None:
        return _undecided(goal, short)
    by_call = average([cell.by_call for cell in cells])
    said = format_estimate(whole.estimate, 2, "x")
    if by_call is not None:
        said += f"; call by call {format_estimate(by_call.estimate, 2, 'x')}"
    return _goal(goal, short, whole.estimate.value >= COMPRESSED, said, cells)


def _at_every_call(results: Results) -> list[Goal]:
    """Return the same goals for editing at every call: by price, short prompts stay as they are."""
    cells = [c for c in results.cells if c.reader and c.method == EVERY_CALL and c.audit.admitted]
    if not cells:
        return []
    named = {
        FLOOR: (f"`{EVERY_CALL}` beats the floor", f"`{EVERY_CALL}` better than the floor"),
        FLOOR_MATCHED: (
            f"`{EVERY_CALL}` beats the floor grown by the newest steps that fit,",
            f"`{EVERY_CALL}` better than the newest steps at the same budget",
        ),
    }
    there = {cell.method for cell in results.cells if cell.reader}
    return [_floor(results, cells, one, *said) for one, said in named.items() if one in there]


def _floor(
    results: Results, cells: Sequence[CellResult], against: str, named: str, short: str
) -> Goal:
    """Won only where it sends about as little as the floor, or less, call by call."""
    goal = (
        f"{named} at the same compression with p < {ALPHA} after Holm, in "
        f"at least {ENVIRONMENTS_WON} environments"
    )
    won, said = 0, []
    for cell in cells:
        test = cell.test(against)
        floor = results.cell(cell.environment, cell.backbone, against)
        if test is None or floor is None:
            continue
        ours, theirs = cell.by_call.estimate.value, floor.by_call.estimate.value
        same = ours >= SAME_COMPRESSION * theirs
        won += same and test.p_holm < ALPHA and test.difference.value > 0
        said.append(
            f"{cell.environment} {test.difference.value:+.3f} [{test.difference.low:+.3f}, "
            f"{test.difference.high:+.3f}], p = {test.p_holm:.2g}, at {ours:.2f}x against "
            f"{theirs:.2f}x call by call{'' if same else ', not the same compression'}"
        )
    if not said:
        return _undecided(goal, short, "the floor was not played")
    return _goal(goal, short, won >= ENVIRONMENTS_WON, "; ".join(said), cells)


def _steps(cells: Sequence[CellResult]) -> Goal:
    found = [(c, c.steps_more.estimate) for c in cells if c.steps_more]
    return _no_more("steps to finish no worse than uncompressed", "no more steps", found)


def _duplicates(cells: Sequence[CellResult]) -> Goal:
    goal = "duplicate actions no worse than uncompressed"
    found = [(c, c.duplicates_more.estimate) for c in cells if c.duplicates_more]
    return _no_more(goal, "no more duplicate actions", found)


def _no_more(goal: str, short: str, found: Sequence[tuple[CellResult, Estimate]]) -> Goal:
    """Met if the interval of the difference contains 0 or lies below it."""
    if not found:
        return _undecided(goal, short)
    said = "; ".join(
        f"{cell.environment} {one.value:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"
        for cell, one in found
    )
    met = all(one.low <= 0 for _, one in found)
    return _goal(goal, short, met, said, [cell for cell, _ in found])


def _bill(results: Results, sheet: str, method: str) -> Goal:
    goal = f"lowest bill among methods that retain {CHEAP_AND_GOOD:.0%}, at the prices of {sheet}"
    ratios: dict[str, float] = {}
    for name in results.methods:
        own = [c for c in results.cells if c.reader and c.method == name and c.audit.admitted]
        places = {c.environment for c in results.cells if c.reader}
        kept = average([c.retention for c in own if c.retention])
        if any(c.planned.varies for c in own) or kept is None:
            continue
        bills = [c.bills[sheet].ratio for c in own]
        if len(own) == len(places) and kept.estimate.value >= CHEAP_AND_GOOD and all(bills):
            ratios[name] = sum(b.estimate.value for b in bills if b) / len(bills)
    cells = [c for c in results.cells if c.reader and c.method == method and c.audit.admitted]
    short = LOWEST_BILL
    if not ratios:
        return _undecided(goal, short, "no method does")
    if method not in ratios:
        return _goal(goal, short, False, _cheapest(ratios, "does not retain enough"), cells)
    met = ratios[method] <= min(ratios.values()) + 1e-9
    said = _cheapest(ratios, f"{method} {ratios[method]:.2f}")
    return _goal(goal, short, met, said, cells)


def _cheapest(ratios: dict[str, float], own: str) -> str:
    order = sorted(ratios.items(), key=lambda one: (one[1], one[0] != NONE, one[0]))
    said = ", ".join(f"{name} {ratio:.2f}" for name, ratio in order[:4])
    return f"{own}; of `none`'s bill: {said}"


def _goal(goal: str, short: str, met: bool, says: str, cells: Sequence[CellResult]) -> Goal:
    edited = any(cell.edited for cell in cells)
    return Goal(goal=goal, short=short, met=met, edited=edited, says=says)


def _undecided(goal: str, short: str, says: str = "no such cell") -> Goal:
    return Goal(goal=goal, short=short, met=None, edited=None, says=says)
