"""In which form each step stays: the most worth for the tokens there are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from agora.core.brought import Told, codes_in, facts, ways_to_tell, words
from agora.core.compression import Decision, Form
from agora.core.deeds import Deed, changes, deed, full_deed, status
from agora.core.elide import ARROW, Markers, names_in
from agora.core.past import Past
from agora.core.shown import USED, phrases, spoken_of
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step
from agora.core.uses import action_text
from agora.core.worth import StepWorth

_PART_OF_A_DEED = 0.5
"""The share of an action's worth that its line carries when it had to be cut."""
_FULL_DEED = 0.9
"""The share that a line carries which names all arguments."""
_COPIED_TOKEN = 0.005
"""What each token of a long action adds to its worth, as a share of it. Worth is a probability:
once a script of 400 tokens is needed, more is copied from it than from a command."""
_SHORT_TOKENS = 64
"""So much of an action is copied for its names alone."""
_LINE, _ACTION, _WHOLE = 1e-6, 2e-6, 3e-6
"""What each form is worth whatever the step is: nothing is forgotten while there is room."""
_CODE = 5e-7
"""What a form that tells a code is worth more than one that does not, whatever the step is."""
_READ_CHARACTERS = 8_192
"""How much of what a step was given is searched for what its result says."""
_MOST_CODES = 2
"""How many codes come before everything else: of a long list of new ids these are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """How a step may be shortened, other than by leaving it out."""

    actions: bool = True
    """Whether a step may keep its action, with a note in place of each result."""
    lines: bool = True
    """Whether a step may become a line in a marker. Without it only steps that changed something
    do, where they cannot keep their action."""
    signed: bool = True
    """Whether notes and markers say who wrote them wherever they are, not only in user text."""
    changing_tools: tuple[str, ...] = ()
    """Further tools whose steps change something, and are therefore never gone."""


class Option(NamedTuple):
    """One form of one step: what it says, what it costs, what it is worth."""

    form: Form
    line: str
    tokens: int
    worth: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that was worked out for an edit, ready to be filled to any budget."""

    past: Past
    held: Mapping[int, str]
    worths: Sequence[StepWorth]
    options: Sequence[Sequence[Option]]
    """The forms of each step, each more expensive and worth more than the one before."""
    marker_tokens: int
    """What a marker costs without its lines."""
    first: Sequence[int]
    """The places of the steps whose second form comes before any other upgrade, in order: codes
    that only their own results tell, then what was done in each step."""

    def decide(self, budget: int) -> tuple[Decision, ...]:
        """Return the decision for each step when all of the past may cost `budget`."""
        room = budget - self.past.fixed_tokens
        interrupted = {utterance.after for utterance in self.past.said}
        filling = _Filling(self.past.steps, self.options, interrupted, self.marker_tokens)
        filling.fill(room, self.first)
        return tuple(
            _decision(step, worth, option, self._floor(at))
            for at, (step, worth, option) in enumerate(
                zip(self.past.steps, self.worths, filling.chosen(), strict=True)
            )
        )

    def _floor(self, at: int) -> str | None:
        """Return why a step stays in any case: it is held, or nothing shorter can stand for it."""
        small = "small" if self.options[at][0].form == "whole" else None
        return self.held.get(self.past.steps[at].number, small)


def plan(
    past: Past,
    worths: Sequence[StepWorth],
    *,
    held: Mapping[int, str],
    forms: Forms,
    markers: Markers,
    counter: TokenCounter,
) -> Plan:
    """Work out what each form of each step would say, cost and be worth.

    What several steps tell is told once, by the newest of them.
    """
    known = names_in(_standing(past, held))
    asked = frozenset().union(words(past.anchor.task), *(words(one.text) for one in past.said))
    told = phrases(past.anchor.task).union(*(phrases(one.text) for one in past.said))
    shows = spoken_of(past.steps, told)
    codes = _codes([step for step in past.steps if step.number not in held], forms)
    options: list[Sequence[Option]] = []
    coded: list[int] = []
    named: list[int] = []
    for at in range(len(past.steps) - 1, -1, -1):
        step, worth = past.steps[at], worths[at]
        if step.number in held:
            options.append((_whole(step, worth),))
            continue
        done = deed(step)
        said = frozenset(done.text.replace("=", " ").split())
        brought, shown = facts(step.observation), tuple(shows.get(step.number, ()))
        found = (*brought, *shown)
        used = [place for place, fact in enumerate(shown, len(brought)) if fact.weight == USED]
        own = [one for one in (*codes.get(step.number, ()), *used) if found[one].tells not in known]
        own = [place for place in own if found[place].tells not in said][:_MOST_CODES]
        tells = ways_to_tell(
            step.observation, known, said=said, asked=asked, codes=tuple(own), shown=shown
        )
        known.update([fact.tells for fact in found])
        shorter = _Shorter(step, done, worth, forms, markers, counter)
        options.append(_rising([*shorter.options(tells, coded=bool(own)), _whole(step, worth)]))
        if own:
            coded.append(at)
        elif options[-1][0].form == "gone":
            named.append(at)
    return Plan(
        past=past,
        held=held,
        worths=worths,
        options=options[::-1],
        marker_tokens=counter.count(markers.run([(100, ""), (200, "")])) + 1,
        first=(*coded, *named),
    )


def _whole(step: Step, worth: StepWorth) -> Option:
    action = _action_worth(worth, 1.0, step.action_tokens)
    return Option("whole", "", step.tokens, action + worth.observation + _WHOLE)


def _action_worth(worth: StepWorth, share: float, tokens: int) -> float:
    """Return what so many tokens of an action are worth that carry this share of its names."""
    return worth.action * (share + _COPIED_TOKEN * max(0, tokens - _SHORT_TOKENS))


def _codes(steps: Sequence[Step], forms: Forms) -> Mapping[int, Sequence[int]]:
    """Return where in its result each step that changed something tells a code alone of all steps.

    No step that reads could show it again. What its own arguments say is no news either.
    """
    given: dict[int, Mapping[str, int]] = {}
    shown: Counter[str] = Counter()
    for step in steps:
        if not changes(step, forms.changing_tools) or status(step) not in ("ok", ""):
            continue
        asked = action_text(step, characters=_READ_CHARACTERS)
        own = codes_in(facts(step.observation), asked=asked)
        if own:
            given[step.number] = own
            shown.update(dict.fromkeys(own, 0))
    for step in steps if given else ():
        shown.update(shown.keys() & {fact.tells for fact in facts(step.observation)})
    return {
        number: [at for tells, at in own.items() if shown[tells] == 1]
        for number, own in given.items()
    }


def _standing(past: Past, held: Mapping[int, str]) -> list[str]:
    """Return the texts that stand in the prompt whatever is decided."""
    texts = [past.preamble, *(utterance.text for utterance in past.said)]
    for step in past.steps:
        if step.number in held:
            texts += [step.action, step.observation]
    return texts


@dataclass(frozen=True, slots=True)
class _Shorter:
    """Writes the forms of one step that are shorter than the whole."""

    step: Step
    done: Deed
    worth: StepWorth
    forms: Forms
    markers: Markers
    counter: TokenCounter

    def options(self, tells: Sequence[Told], *, coded: bool) -> list[Option]:
        """Return them without names and with each of these sets of names.

        Where they tell a code, only the shortest is there without it: for when nothing else fits.
        """
        nothing = Told("", 0.0)
        if not coded:
            return self._with((nothing, *tells))
        shortest = min(self._with((nothing,)), key=lambda option: option.tokens)
        found = self._with(tells)
        return [shortest, *[option._replace(worth=option.worth + _CODE) for option in found]]

    def _with(self, tells: Sequence[Told]) -> list[Option]:
        step, worth, count = self.step, self.worth, self.counter.count
        removable = step.form == "drop"
        went = status(step)
        found: list[Option] = []
        in_place = self.forms.actions and bool(step.action_tokens)
        if removable and not changes(step, self.forms.changing_tools):
            found.append(Option("gone", "", 0, 0.0))
        lines = removable and (self.forms.lines or (not found and not in_place))
        if found and lines and self._says_nothing():
            return found
        deeds = self._deeds() if lines else {}
        said = {done: _action_worth(worth, share, count(done)) for done, share in deeds.items()}
        verbatim = _action_worth(worth, 1.0, step.action_tokens)
        for tell in dict.fromkeys(tells):
            brought = worth.observation * worth.named * tell.share
            for done, value in said.items():
                line = _line(done, went, tell.text)
                tokens = count(f"\n{step.number} {line}")
                found.append(Option("line", line, tokens, value + _LINE + brought))
            if in_place or not removable:
                line = _line(self.done.text, went, tell.text)
                tokens = (step.action_tokens or step.residue_tokens) + 1
                tokens += count(self.markers.mask(step.number, line))
                found.append(Option("action", line, tokens, verbatim + _ACTION + brought))
        return found

    def _says_nothing(self) -> bool:
        """Tell whether a line would say nothing: a thought that was noted down by a tool."""
        return not self.step.observation.strip() and self.done.text == "think"

    def _deeds(self) -> Mapping[str, float]:
        """Return the deed in short and with all of it, and the share of worth that each carries."""
        if self.done.whole:
            return {self.done.text: 1.0}
        full = full_deed(self.step, self.done)
        return {full.text: _FULL_DEED} | {self.done.text: _PART_OF_A_DEED}


def _line(done: str, went: str, names: str) -> str:
    tail = " ".join(filter(None, (went, names)))
    return f"{done}{ARROW}{tail}" if tail else done


def _rising(options: Sequence[Option]) -> Sequence[Option]:
    """Return the options that no cheaper one is worth as much as, cheapest first."""
    rising: list[Option] = []
    for option in sorted(options, key=lambda option: (option.tokens, -option.worth)):
        if not rising or option.worth > rising[-1].worth:
            rising.append(option)
    return rising


class _Upgrade(NamedTuple):
    """From one form of a step to a better one, with what each of its tokens buys."""

    density: float
    at: int
    before: int
    after: int


class _Filling:
    """A multiple-choice knapsack, filled greedily along the concave hull of each step's forms."""

    def __init__(
        self,
        steps: Sequence[Step],
        options: Sequence[Sequence[Option]],
        interrupted: set[int],
        marker_tokens: int,
    ) -> None:
        self._options = options
        self._marker_tokens = marker_tokens
        self._levels = [0] * len(options)
        self._in_run = [self._removed(at, 0) for at in range(len(options))]
        # Whether a marker could reach from each step to the next one.
        self._joined = [step.number not in interrupted for step in steps]
        self._tokens = sum(forms[0].tokens for forms in options)
        self._tokens += marker_tokens * sum(
            removed and not self._continues(at) for at, removed in enumerate(self._in_run)
        )

    def fill(self, room: int, first: Sequence[int]) -> None:
        """Take what comes first, then the best upgrades until nothing fits."""
        for at in first:
            if len(self._options[at]) > 1:
                self._try(at, 1, room)
        newest_first = range(len(self._options) - 1, -1, -1)
        upgrades = [upgrade for at in newest_first for upgrade in self._hull(at)]
        # The sort is stable: of two that are worth the same the newer step comes first.
        upgrades.sort(key=lambda upgrade: -upgrade.density)
        for upgrade in upgrades:
            if self._levels[upgrade.at] == upgrade.before:
                self._try(upgrade.at, upgrade.after, room)
        for at in dict.fromkeys(upgrade.at for upgrade in upgrades):
            for level in range(len(self._options[at]) - 1, self._levels[at], -1):
                if self._try(at, level, room):
                    break

    def chosen(self) -> list[Option]:
        """Return the form of each step."""
        return [forms[level] for forms, level in zip(self._options, self._levels, strict=True)]

    def _hull(self, at: int) -> list[_Upgrade]:
        """Return the upgrades from where a step is, along the upper hull of worth over tokens."""
        forms = self._options[at]
        corners = [self._levels[at]]
        for level in range(self._levels[at] + 1, len(forms)):
            while len(corners) > 1 and _density(forms, corners[-1], level) >= _density(
                forms, corners[-2], corners[-1]
            ):
                corners.pop()
            corners.append(level)
        return [
            _Upgrade(_density(forms, before, after), at, before, after)
            for before, after in pairwise(corners)
        ]

    def _try(self, at: int, level: int, room: int) -> bool:
        """Take a form if it fits."""
        forms = self._options[at]
        cost = forms[level].tokens - forms[self._levels[at]].tokens
        leaves = self._in_run[at] and not self._removed(at, level)
        if leaves:
            # A step that stays in the middle of a run cuts its marker in two.
            neighbours = self._continues(at) + self._goes_on(at)
            cost += self._marker_tokens * (neighbours - 1)
        if self._tokens + cost > room and cost > 0:
            return False
        self._tokens += cost
        self._levels[at] = level
        self._in_run[at] = self._in_run[at] and not leaves
        return True

    def _removed(self, at: int, level: int) -> bool:
        return self._options[at][level].form in ("line", "gone")

    def _continues(self, at: int) -> bool:
        """Tell whether the step before is part of the same run."""
        return at > 0 and self._in_run[at - 1] and self._joined[at - 1]

    def _goes_on(self, at: int) -> bool:
        """Tell whether the step after is part of the same run."""
        return at + 1 < len(self._in_run) and self._in_run[at + 1] and self._joined[at]


def _density(forms: Sequence[Option], before: int, after: int) -> float:
    gained = forms[after].worth - forms[before].worth
    return gained / (forms[after].tokens - forms[before].tokens)


def _decision(step: Step, worth: StepWorth, option: Option, held: str | None) -> Decision:
    score = min(1.0, max(worth.action, worth.observation))
    if held is not None:
        return Decision(step.number, "floor", held, step.tokens, score)
    if option.form == "whole":
        return Decision(step.number, "kept", "worth its tokens", step.tokens, score)
    reason = "no room for its result" if option.form == "action" else "no room left"
    return Decision(
        step.number, "elided", reason, step.tokens, score, option.line, form=option.form
    )
