"""Both sides of each planned pair, whole and without the step, found among the answers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agora.lab.labelling.answers import Answered
from agora.lab.labelling.cases import Case
from agora.lab.labelling.plan import Settings, asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """What was answered to the whole prompt of an anchor, and to the one without a candidate."""

    anchor: int
    candidate: int
    full: Answered
    without: Answered


@dataclass(frozen=True, slots=True)
class AnsweredCase:
    """A case with what was answered about it, by kind of ask."""

    case: Case
    samples: tuple[Sides, ...] = ()
    scores: tuple[Sides, ...] = ()
    missing_samples: int = 0
    """Pairs that are planned and not answered yet."""
    missing_scores: int = 0


def by_key(answers: Iterable[Answered]) -> dict[bytes, Answered]:
    """Return answers by their keys, all in memory: some hundred bytes each."""
    return {bytes.fromhex(one.key): one for one in answers}


def sides(
    cases: Iterable[Case], answers: Mapping[bytes, Answered], settings: Settings
) -> Iterator[AnsweredCase]:
    """Return each case with the pairs that were answered on both sides.

    Answers are found by their keys, so one answer serves every pair that asks
    the same, in whatever case or plan it was asked first.
    """
    for number, case in enumerate(cases):
        full: dict[tuple[str, int], Answered | None] = {}
        found: dict[str, list[Sides]] = {"sample": [], "score": []}
        missing = {"sample": 0, "score": 0}
        for ask in asks(number, case, settings):
            answer = answers.get(bytes.fromhex(ask.key))
            if not ask.candidate:
                full[ask.kind, ask.anchor] = answer
                continue
            whole = full[ask.kind, ask.anchor]
            if answer is None or whole is None:
                missing[ask.kind] += 1
            else:
                found[ask.kind].append(
                    Sides(anchor=ask.anchor, candidate=ask.candidate, full=whole, without=answer)
                )
        yield AnsweredCase(
            case,
            tuple(found["sample"]),
            tuple(found["score"]),
            missing["sample"],
            missing["score"],
        )
