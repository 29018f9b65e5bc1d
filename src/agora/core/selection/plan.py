"""Which form each step takes: everything that could stand there, and a choice for any budget."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agora.core.actions import NO_TOOLS, Tools, changes
from agora.core.compression import Decision
from agora.core.outcome import Outcome
from agora.core.past import Past
from agora.core.reading import READ_OF_AN_ACTION
from agora.core.reading.mentions import USED, action_text, spoken_of
from agora.core.reading.names import all_names
from agora.core.reading.observation import observe, outcome
from agora.core.reading.records import Fact, codes_in
from agora.core.reading.things import phrases
from agora.core.renditions.brief import brief, empty
from agora.core.renditions.draft import Draft, Forms, Tell
from agora.core.renditions.gone import gone
from agora.core.renditions.markers import Markers
from agora.core.renditions.rendition import Rendition
from agora.core.renditions.short_action import ShortAction, short_action
from agora.core.renditions.table import TABLE
from agora.core.renditions.telling import Told, ways_to_tell, words
from agora.core.renditions.whole import whole
from agora.core.selection.fill import Filling
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step
from agora.core.worth import StepWorth

_CODE = 5e-7
"""What a form that tells a code is worth more than one that does not, whatever the step is."""
_MOST_CODES = 2
"""How many codes come before everything else: of a long list of new ids these are enough."""
_NOTHING = Told("", 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that was worked out for an edit, ready to be filled to any budget."""

    past: Past
    held: Mapping[int, str]
    worths: Sequence[StepWorth]
    options: Sequence[Sequence[Rendition]]
    """The forms of each step, each more expensive and worth more than the one before."""
    marker_tokens: int = 0
    """What a marker costs without its lines."""
    first: Sequence[int] = ()
    """The places of the steps whose second form comes before any other upgrade, in order: codes
    that only their own results tell, then what was done in each step."""

    @property
    def _interrupted(self) -> set[int]:
        """The steps after which a marker cannot reach on, because a user's words could hold one."""
        by_calls = {step.number for step in self.past.steps if step.calls}
        said = self.past.said
        return {one.after for one in said if one.by_user and one.after not in by_calls}

    def decide(self, budget: int) -> tuple[Decision, ...]:
        """Return the decision for each step when all of the past may cost `budget`."""
        filling = Filling(
            self.options,
            interrupted=self._interrupted,
            marker_tokens=self.marker_tokens,
        )
        chosen = filling.fill(budget - self.past.fixed_tokens, self.first)
        return tuple(self._decision(at, rendition) for at, rendition in enumerate(chosen))

    def decide_less(
        self, before: tuple[Decision, ...], budget: int, tokens: int
    ) -> tuple[tuple[Decision, ...], int] | None:
        """Return decisions that cost about `tokens` less than those `before`, and their budget.

        None if nothing can give way.
        """
        least = self.past.fixed_tokens
        while budget > least:
            budget = max(least, budget - tokens)
            decisions = self.decide(budget)
            if decisions != before:
                return decisions, budget
            tokens *= 2
        return None

    def _decision(self, at: int, rendition: Rendition) -> Decision:
        step, worth = self.past.steps[at], self.worths[at]
        score = min(1.0, max(worth.action, worth.observation))
        held = self.held.get(step.number)
        if held is None and self.options[at][0].form == "whole":
            held = "small"
        if held is not None:
            return Decision(step.number, "floor", held, step.tokens, score)
        if rendition.form == "whole":
            return Decision(step.number, "kept", "worth its tokens", step.tokens, score)
        reason = "no room for its result" if rendition.in_place else "no room left"
        return Decision(step.number, "elided", reason, step.tokens, score, rendition)


def plan(
    past: Past,
    worths: Sequence[StepWorth],
    *,
    held: Mapping[int, str],
    forms: Forms,
    tools: Tools = NO_TOOLS,
    markers: Markers,
    counter: TokenCounter,
) -> Plan:
    """Work out what each form of each step would say, cost and be worth.

    What several steps tell is told once, by the newest of them, and not at all where the line of a
    call says it.
    """
    deeds = {one.number: short_action(one, tools) for one in past.steps if one.number not in held}
    telling = _Telling(past, deeds, tools)
    carriers = _carriers(past, tools)
    options: list[Sequence[Rendition]] = []
    coded: list[int] = []
    named: list[int] = []
    for at in range(len(past.steps) - 1, -1, -1):
        step, worth = past.steps[at], worths[at]
        if step.number in held:
            options.append((whole(step),))
            continue
        if step.number in carriers:
            step = step._replace(removable=False)
        done = deeds[step.number]
        went = [outcome(result) for result in step.results]
        told = telling.of(step, frozenset(done.text.replace("=", " ").split()), went)
        nothing = (_NOTHING,) * len(went)
        tells = told.tells if told.coded else (nothing, *told.tells)
        carried = worth.observation * worth.named
        draft = Draft(
            step=step,
            worth=worth,
            done=done,
            changed=changes(step, tools),
            tells=[
                Tell(_said(step, went, one), carried * _share(one)) for one in dict.fromkeys(tells)
            ],
            forms=forms,
            markers=markers,
            counter=counter,
        )
        without_code = Tell(_said(step, went, nothing), 0.0) if told.coded else None
        options.append(_rising(_renditions(draft, without_code)))
        if told.coded:
            coded.append(at)
        elif options[-1][0].form == "gone":
            named.append(at)
    return Plan(
        past=past,
        held=held,
        worths=worths,
        options=options[::-1],
        marker_tokens=counter.count(markers.run([gone(100), gone(200)])) + 1,
        first=(*coded, *named),
    )


def _carriers(past: Past, tools: Tools) -> frozenset[int]:
    """Return the steps that keep their calls, so that each marker has its place among results.

    What tools said has no place in a user's message, so a marker stands in the last result before
    its steps. The first step has none before it, unless one that is never a candidate could hold
    it, which nobody knows. And what was changed at a user's word must not seem to have been done
    before it. An agent that acts by text has no place but the user's.
    """
    spoken = {0, *[utterance.after for utterance in past.said if utterance.by_user]}
    carriers: set[int] = set()
    behind = False
    for step in past.steps:
        behind = behind or step.number - 1 in spoken
        carries = step.calls and not step.fixed
        if behind and carries and (not carriers or changes(step, tools)):
            carriers.add(step.number)
            behind = False
    return frozenset(carriers)


def _said(step: Step, went: Sequence[Outcome], told: Sequence[Told]) -> tuple[str, ...]:
    """Return what is said of each result: how its call went and why, then what it brought."""
    said: list[str] = []
    for result, how, one in zip(step.results, went, told, strict=True):
        brought = one.text or (brief(result.text) if one.share and not how.reason else "")
        parts = [how.status, f'"{how.reason}"' if how.reason else "", brought or empty(result.text)]
        said.append(" ".join([part for part in parts if part]))
    return tuple(said)


def _share(told: Sequence[Told]) -> float:
    return sum([one.share for one in told]) / len(told)


def _renditions(draft: Draft, without_code: Tell | None) -> list[Rendition]:
    """Return all forms of a step.

    Where they tell a code, only the shortest is there without it: for when nothing else fits.
    """
    found = [one for form in TABLE for one in form.renditions(draft)]
    if without_code is None:
        return found
    bare = replace(draft, tells=[without_code])
    shorter = (one for form in TABLE for one in form.renditions(bare) if one.form != "whole")
    shortest = min(shorter, key=lambda rendition: rendition.tokens)
    return [
        shortest,
        *[one if one.form == "whole" else one._replace(worth=one.worth + _CODE) for one in found],
    ]


class _Ways(NamedTuple):
    """What could be told of each of a step's results, and whether a code comes first."""

    tells: tuple[tuple[Told, ...], ...]
    coded: bool


class _Telling:
    """What the results of steps have to tell, asked from the newest step to the oldest."""

    def __init__(self, past: Past, deeds: Mapping[int, ShortAction], tools: Tools) -> None:
        said = [utterance.text for utterance in past.said]
        standing = [past.preamble, *said]
        called: list[str] = []
        for step in past.steps:
            done = deeds.get(step.number)
            if done is None:
                standing += [step.action, step.observation]
            elif step.calls:
                called.append(done.text)
        self._told = all_names(standing)
        # Calls are told in few words, before anything else is. A command by text may not fit.
        self._known = self._told | all_names(called)
        task = past.anchor.task
        self._asked = frozenset().union(words(task), *map(words, said))
        self._shows = spoken_of(past.steps, phrases(task).union(*map(phrases, said)))
        self._codes = _codes([step for step in past.steps if step.number in deeds], tools)

    def of(self, step: Step, words: frozenset[str], went: Sequence[Outcome]) -> _Ways:
        """Return what is told of a step whose action says these words, and whose calls went so.

        What the quoted reason of a failure names is not named again.

        What a result tells never depends on another result of the same step.
        """
        coded = False
        each: list[tuple[Told, ...]] = []
        new: list[Fact] = []
        for at, (result, how) in enumerate(zip(step.results, went, strict=True)):
            said = words.union(all_names([how.reason])) if how.reason else words
            found, own = self._found(step, at, said)
            # Codes are told by the result that brought them: the line of an action may be gone.
            self._known.difference_update([found[place].tells for place in own])
            # What a text shows of things is known for the whole step.
            shown = found[len(observe(result.text).facts) :]
            each.append(
                ways_to_tell(
                    result.text, self._known, said=said, asked=self._asked, codes=own, shown=shown
                )
            )
            coded = coded or bool(own)
            new += found
        told = [fact.tells for fact in new]
        self._told.update(told)
        self._known.update(told)
        most = max(map(len, each))
        tells = [tuple(ways[min(level, len(ways) - 1)] for ways in each) for level in range(most)]
        return _Ways(tuple(tells), coded)

    def _found(
        self, step: Step, at: int, said: frozenset[str]
    ) -> tuple[tuple[Fact, ...], tuple[int, ...]]:
        """Return the facts of a result, and where the few are that come before all others."""
        brought = observe(step.results[at].text).facts
        alone = len(step.results) == 1
        shown = tuple(self._shows.get(step.number, ())) if alone else ()
        found: tuple[Fact, ...] = (*brought, *shown)
        used = [place for place, fact in enumerate(shown, len(brought)) if fact.weight == USED]
        own = [
            place
            for place in (*self._codes.get((step.number, at), ()), *used)
            if found[place].tells not in self._told and found[place].tells not in said
        ]
        return found, tuple(own[:_MOST_CODES])


def _codes(steps: Sequence[Step], tools: Tools) -> Mapping[tuple[int, int], Sequence[int]]:
    """Return where each result of a step that changed something tells a code alone of all steps.

    No step that reads could show it again. What its own arguments say is no news either.
    """
    given: dict[tuple[int, int], Mapping[str, int]] = {}
    shown: Counter[str] = Counter()
    for step in steps:
        if not changes(step, tools):
            continue
        asked = action_text(step, characters=READ_OF_AN_ACTION)
        for at, result in enumerate(step.results):
            if outcome(result).failed:
                continue
            own = codes_in(observe(result.text).facts, asked=asked)
            if own:
                given[step.number, at] = own
                shown.update(dict.fromkeys(own, 0))
    for step in steps if given else ():
        facts = {fact.tells for result in step.results for fact in observe(result.text).facts}
        shown.update(shown.keys() & facts)
    return {
        place: [at for tells, at in own.items() if shown[tells] == 1]
        for place, own in given.items()
    }


def _rising(options: Sequence[Rendition]) -> Sequence[Rendition]:
    """Return the options that no cheaper one is worth as much as, cheapest first."""
    rising: list[Rendition] = []
    for option in sorted(options, key=lambda option: (option.tokens, -option.worth)):
        if not rising or option.worth > rising[-1].worth:
            rising.append(option)
    return rising
