"""What came out of a run, in a few sentences made from its figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agora_lab.evaluation.blocks import Verdict
from agora_lab.evaluation.results import ALPHA, FLOOR_MATCHED, NONE, CellResult, Results
from agora_lab.evaluation.statistics import Estimate, Resampled, average
from agora_lab.evaluation.words import listed, percent

DEFAULT, EVERY_CALL = "agora", "agora_every_call"
SAME_COMPRESSION = 0.9
"""Call by call, one within this share of the other sends as much."""
_ALIKE = 0.005
"""Shares of the reward that are the same to the percent."""


def verdict(found: Results, sheet: str = "") -> Verdict:
    """Return the verdict; bills are those of `sheet`, if one is named.

    Methods are compared on readers where they played, else on the first backbone:
    the two are never added up.
    """
    if not found.cells:
        return Verdict("No episode was played", ())
    backbone = found.places[0][1]
    played = {
        name: _Played(name, own, sheet)
        for name in found.methods
        if (own := _cells(found, backbone, name))
    }
    points = [("Played", _what_was_played(found))]
    if {DEFAULT, EVERY_CALL, FLOOR_MATCHED} & played.keys():
        points.append(("Against sending everything", " ".join(_against_all(played))))
        points.append(("Against the newest steps", " ".join(_against_newest(found, played))))
    else:
        said = f"Not played (`{DEFAULT}`), nor were the newest steps at the same budget"
        points.append(("Our default", f"{said} (`{FLOOR_MATCHED}`)."))
    spread = " ".join(_spread(list(played.values())))
    if spread:
        points.append(("Of all that edited", spread))
    return Verdict(_headline(played), points)


@dataclass(frozen=True, slots=True)
class _Played:
    """One method over the worlds of one backbone."""

    name: str
    cells: tuple[CellResult, ...]
    sheet: str

    @property
    def edited(self) -> bool:
        return any(cell.edited for cell in self.cells)

    @property
    def calls(self) -> int:
        return sum(row.steps for cell in self.cells for row in cell.rows)

    @property
    def calls_edited(self) -> float:
        changed = sum(row.changed for cell in self.cells for row in cell.rows)
        return changed / max(1, self.calls)

    @property
    def retention(self) -> Estimate | None:
        return _average([cell.retention for cell in self.cells])

    @property
    def by_call(self) -> float:
        return sum(cell.by_call.estimate.value for cell in self.cells) / len(self.cells)

    def kept(self) -> str:
        """Return the share of the reward of `none` that it kept, or the reward."""
        kept = self.retention
        if kept is not None:
            return f"{percent(kept)} of the reward"
        reward = _average([cell.reward for cell in self.cells])
        return f"a reward of {reward.value:.3f}" if reward else "no reward"

    def bill(self) -> str:
        """Return what it costs beside `none`, or nothing where no bill was made."""
        there = [cell.bills[self.sheet].ratio for cell in self.cells if self.sheet in cell.bills]
        ratio = _average(there)
        if ratio is None:
            return ""
        interval = f"[{ratio.low:.2f}, {ratio.high:.2f}]"
        return f" at {ratio.value:.2f} {interval} times the bill ({self.sheet})"

    def did(self) -> str:
        """Return how much it edited, what it kept and what that cost."""
        share = self.calls_edited
        edited = f"{100 * share:.0f} %" if share >= 0.01 else "under 1 %"
        return f"edited {edited} of the calls and kept {self.kept()}{self.bill()}"


def _headline(played: dict[str, _Played]) -> str:
    default, every = played.get(DEFAULT), played.get(EVERY_CALL)
    if default and not default.edited:
        said = "The default edited nothing here"
        kept = every.retention if every and every.edited else None
        if kept is None:
            return said
        if kept.high < 1:
            return (
                f"{said}; editing at every call lost {100 * (1 - kept.value):.0f} % of the reward"
            )
        return f"{said}; editing at every call kept {100 * kept.value:.0f} % of the reward"
    subject = default or every
    if subject and subject.retention:
        who = "The default" if default else "Editing at every call"
        kept = subject.retention
        return f"{who} kept {100 * kept.value:.0f} % of the reward of sending everything"
    order = _by_retention(list(played.values()))
    if not order:
        return "Played, with nothing to compare it with"
    best, most = order[-1]
    who = f"Of {len(order)} methods that edited, the best" if len(order) > 1 else f"`{best.name}`"
    return f"{who} kept {100 * most.value:.0f} % of the reward of sending everything"


def _what_was_played(found: Results) -> str:
    rows = found.material.rows
    worlds = list(dict.fromkeys(environment for environment, _ in found.places))
    backbones = list(dict.fromkeys(backbone for _, backbone in found.places))
    tasks = len({(row.environment, row.task) for row in rows})
    named = [f"`{name}`" for name in backbones]
    if backbones[0] == "reader":
        named[0] += ", a program that acts only on what its prompt says"
    said = (
        f"{_many(len(rows), 'episode')}: {_many(len(found.methods), 'method')} on "
        f"{_many(tasks, 'task')} of {listed(worlds)}, by {listed(named)}."
    )
    out = sum(not cell.audit.admitted for cell in found.cells)
    return f"{said} The audit kept {_many(out, 'cell')} out." if out else said


def _against_all(played: dict[str, _Played]) -> Iterator[str]:
    default, every = played.get(DEFAULT), played.get(EVERY_CALL)
    if NONE not in played:
        yield "Sending everything (`none`) was not played."
    if default is None:
        yield f"The default (`{DEFAULT}`) was not played."
    elif default.edited:
        yield f"The default (`{DEFAULT}`) {default.did()}."
    else:
        said = f"The default (`{DEFAULT}`) changed none of its {default.calls:,} calls"
        kept = default.retention
        same = kept is not None and kept.low == kept.high == 1
        yield said + (", so reward and bill are the same." if same else ".")
    if every and every.edited and not (default and default.edited):
        yield f"Editing at every call (`{EVERY_CALL}`) {every.did()}."


def _against_newest(found: Results, played: dict[str, _Played]) -> Iterator[str]:
    newest = played.get(FLOOR_MATCHED)
    ours = next(
        (own for name in (DEFAULT, EVERY_CALL) if (own := played.get(name)) and own.edited), None
    )
    if newest is None:
        yield f"The newest steps at the same budget (`{FLOOR_MATCHED}`) were not played."
        return
    if ours is None:
        beside = "edited nothing" if DEFAULT in played else "was not played as it is"
        yield f"They (`{FLOOR_MATCHED}`) {newest.did()}; the default {beside}."
        return
    yield (
        f"`{ours.name}` kept {ours.kept()} at {ours.by_call:.2f}x compression, call by call; the "
        f"newest steps at the same budget (`{FLOOR_MATCHED}`) kept {newest.kept()} at "
        f"{newest.by_call:.2f}x."
    )
    ahead: list[str] = []
    behind: list[str] = []
    alike: list[str] = []
    unequal: list[str] = []
    for cell in ours.cells:
        test = cell.test(FLOOR_MATCHED)
        other = found.cell(cell.environment, cell.backbone, FLOOR_MATCHED)
        if test is None or other is None:
            continue
        sizes = sorted((cell.by_call.estimate.value, other.by_call.estimate.value))
        if sizes[0] < SAME_COMPRESSION * sizes[1]:
            unequal.append(cell.environment)
        where = alike if test.p_holm >= ALPHA else ahead if test.difference.value > 0 else behind
        where.append(cell.environment)
    if alike and not ahead and not behind:
        yield f"No difference beyond chance in {listed(alike)} (no p < {ALPHA} after Holm)."
    else:
        parts = [("ahead in", ahead), ("behind in", behind), ("no difference in", alike)]
        told = "; ".join(f"{word} {listed(names)}" for word, names in parts if names)
        yield f"By task: {told} (p < {ALPHA} after Holm)."
    if unequal:
        yield f"In {listed(unequal)} one sent over {1 - SAME_COMPRESSION:.0%} more than the other."


def _spread(played: Sequence[_Played]) -> Iterator[str]:
    order = _by_retention(played)
    if len(order) > 1:
        (least, low), (most, high) = order[0], order[-1]
        if high.value - low.value < _ALIKE:
            yield f"All {len(order)} kept {percent(high)} of the reward (n = {high.n})."
        else:
            yield (
                f"Of {len(order)}, `{most.name}` kept the most reward, {percent(high)}, and "
                f"`{least.name}` the least, {percent(low)}."
            )
    idle = [one.name for one in played if not one.edited and one.name not in (NONE, DEFAULT)]
    if idle:
        yield f"Without one edit: {listed([f'`{name}`' for name in idle])}."


def _by_retention(played: Sequence[_Played]) -> list[tuple[_Played, Estimate]]:
    """Return what edited, least kept first; what missed a world is not compared."""
    most = max((len(one.cells) for one in played), default=0)
    there = [
        (one, kept)
        for one in played
        if one.edited and len(one.cells) == most and (kept := one.retention)
    ]
    return sorted(there, key=lambda pair: (pair[1].value, pair[0].name))


def _cells(found: Results, backbone: str, method: str) -> tuple[CellResult, ...]:
    return tuple(
        cell
        for cell in found.cells
        if (cell.backbone, cell.method) == (backbone, method) and cell.audit.admitted
    )


def _average(parts: Sequence[Resampled | None]) -> Estimate | None:
    whole = average([part for part in parts if part])
    return whole.estimate if whole else None


def _many(count: int, one: str) -> str:
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"
