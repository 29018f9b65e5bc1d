"""Planned pairs matched with their answers: with the whole prompt, and without the step."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agora_lab.label.answers import Answered
from agora_lab.label.cases import Case
from agora_lab.label.plan import PlanSettings, asks


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredPair:
    """The answers to an anchor's whole prompt, and to the prompt without a candidate."""

    anchor: int
    candidate: int
    full: Answered
    without: Answered


@dataclass(frozen=True, slots=True)
class AnsweredCase:
    """A case with its answers, by kind of ask."""

    case: Case
    samples: tuple[AnsweredPair, ...] = ()
    scores: tuple[AnsweredPair, ...] = ()
    missing_samples: int = 0
    """Planned pairs without an answer yet."""
    missing_scores: int = 0


def by_key(answers: Iterable[Answered]) -> dict[bytes, Answered]:
    """Return answers by key, all in memory: a few hundred bytes each."""
    return {bytes.fromhex(one.key): one for one in answers}


def match_answers(
    cases: Iterable[Case], answers: Mapping[bytes, Answered], settings: PlanSettings
) -> Iterator[AnsweredCase]:
    """Return each case with the pairs that have both answers.

    Answers are found by key, so one answer serves every pair that asks the same
    question, whichever case or plan asked it first.
    """
    for number, case in enumerate(cases):
        full: dict[tuple[str, int], Answered | None] = {}
        found: dict[str, list[AnsweredPair]] = {"sample": [], "score": []}
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
                    AnsweredPair(
                        anchor=ask.anchor, candidate=ask.candidate, full=whole, without=answer
                    )
                )
        yield AnsweredCase(
            case,
            tuple(found["sample"]),
            tuple(found["score"]),
            missing["sample"],
            missing["score"],
        )
