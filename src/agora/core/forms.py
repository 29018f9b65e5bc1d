"""What may stand in the prompt for a step: all of it, notes, a line in a marker, or nothing."""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from agora.core.action_lines import CUT, action_lines, verbatim_command
from agora.core.actions import Tools, changes, command_of
from agora.core.facts import chosen_facts, facts_in, names_in, reads_as_orders
from agora.core.outcome import outcome_of
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Result, Step

FACT_COUNTS = (0, 1, 2, 4, 8, 12)
"""How many facts a line or note says of each result, from the shortest to the longest."""
_ARROW = " -> "
_SHORT_CHARACTERS = 60
_NOTE_TOKENS = 14
"""What the frame of a note costs."""


class Place(NamedTuple):
    """What stands in the places of one call and of its result; None is the caller's own text."""

    action: str | None = None
    result: str | None = None


class Form(NamedTuple):
    """What stands in the prompt for one step, and what it costs."""

    number: int
    kind: Literal["omitted", "line", "note", "whole"]
    """A note keeps the call and replaces each result; a line stands in a marker."""
    places: tuple[Place, ...]
    """A place per result, in their order, then one for each call without a result."""
    tokens: int

    @property
    def in_place(self) -> bool:
        """True if the step's own messages stay. Otherwise a marker stands for them."""
        return self.kind in ("note", "whole")

    @property
    def result(self) -> str:
        """What stands for the results."""
        return " ".join(place.result for place in self.places if place.result)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of a marker: one for each call, and the number of calls without one."""
        told = [place for place in self.places if place.action]
        lines = [f"{p.action}{_ARROW}{p.result}" if p.result else str(p.action) for p in told]
        untold = len(self.places) - len(told)
        return (*lines, f"+{untold} calls") if told and untold else tuple(lines)

    @property
    def text(self) -> str:
        r"""What stands for the step: the text of its notes, or the lines in its marker.

        >>> flight = Place("get_flight number=HAT136", "date=2024-05-20")
        >>> Form(3, "line", (flight, Place("look", "")), 12).text
        'get_flight number=HAT136 -> date=2024-05-20\nlook'
        """
        return self.result if self.in_place else "\n".join(self.lines)


def whole(step: Step) -> Form:
    """Return the form of a step that stays as it is."""
    return Form(step.number, "whole", (Place(),), step.tokens)


def omitted(number: int) -> Form:
    """Return the form of a step that leaves nothing but its number in a marker."""
    return Form(number, "omitted", (Place("", ""),), 0)


@dataclass(frozen=True, slots=True)
class Options:
    """The forms that one step may take."""

    whole: Form
    short: Sequence[Form]
    """Its action in short, with more and more facts; or with notes, if the calls have to stay."""
    verbatim: Sequence[Form] = ()
    """Its action word for word, with more and more facts, where `short` cuts it."""
    may_be_omitted: bool = False
    """True if the step only reads, so that forgetting it does no harm."""
    wrote: str = ""
    """The name of the file or script that the agent itself wrote in this step."""

    @property
    def least(self) -> Form:
        """The cheapest form."""
        if self.may_be_omitted:
            return omitted(self.whole.number)
        return self.short[0] if self.short else self.whole


def options_of(
    step: Step,
    known: Collection[str],
    topics: frozenset[str],
    *,
    keeps_place: bool,
    tools: Tools,
    counter: TokenCounter,
) -> Options:
    """Return the forms of a step.

    No form repeats a name in `known`, which stands elsewhere in the prompt. Records with a word in
    `topics`, the words of the task and of the user, come first. With `keeps_place` the step's
    calls stay.
    """
    reads = not changes(step, tools)
    shorts = action_lines(step, tools)
    said = frozenset(" ".join(shorts).replace("=", " ").split())
    texts = [_result_texts(result, known, said, topics) for result in step.results]
    levels = list(dict.fromkeys(zip(*texts, strict=True)))
    cut = any(not line or CUT in line for line in shorts)
    full = verbatim_command(step)
    short: list[Form] = []
    verbatim: list[Form] = []
    if keeps_place or not step.removable:
        short, reads = [_note(step, level, counter) for level in levels], False
    elif not (reads and _says_nothing(step, shorts)):
        short = [_line(step, shorts, level, counter) for level in levels]
        if full is not None and [full] != shorts:
            verbatim = [_line(step, [full], level, counter) for level in levels]
        elif cut and step.calls and step.action_tokens:
            verbatim = [_note(step, level, counter) for level in levels]
    return Options(
        whole=whole(step),
        short=[form for form in short if form.tokens < step.tokens],
        verbatim=[form for form in verbatim if form.tokens < step.tokens],
        may_be_omitted=reads,
        wrote="" if reads else _written(step),
    )


def _says_nothing(step: Step, actions: Sequence[str]) -> bool:
    """Return True for a thought that was noted by a tool: nothing to name, and no result."""
    return not step.observation.strip() and all(line.endswith(CUT) for line in actions)


def _line(step: Step, actions: Sequence[str], texts: Sequence[str], counter: TokenCounter) -> Form:
    places: list[Place] = []
    answered: set[int] = set()
    for at, (result, text) in enumerate(zip(step.results, texts, strict=True)):
        call = result.call if result.call >= 0 else at
        answered.add(call)
        action = actions[call] if call < len(actions) else ""
        places.append(Place(action, text if action else ""))
    places += [Place(line, "") for at, line in enumerate(actions) if at not in answered]
    form = Form(step.number, "line", tuple(places), 0)
    tokens = counter.count("".join(f"\n{step.number} {line}" for line in form.lines))
    return form._replace(tokens=tokens)


def _note(step: Step, texts: Sequence[str], counter: TokenCounter) -> Form:
    tokens = step.action_tokens + sum(_NOTE_TOKENS + counter.count(text) for text in texts)
    return Form(step.number, "note", tuple(Place(None, text) for text in texts), tokens)


def _result_texts(
    result: Result, known: Collection[str], said: frozenset[str], topics: frozenset[str]
) -> list[str]:
    """Return the text about a result for each count of facts."""
    outcome = outcome_of(result)
    head = [outcome.status] if outcome.status else []
    if outcome.reason:
        head.append(f'"{outcome.reason}"')
        said = said | names_in(outcome.reason)
    empty = _empty(result.text)
    if empty:
        return [" ".join([*head, empty])] * len(FACT_COUNTS)
    facts = chosen_facts(facts_in(result.text), known, topics, FACT_COUNTS[1:], said)
    if not facts[-1] and not outcome.reason:
        facts = [_short(result.text)] * len(facts)
    return [" ".join([*head, *filter(None, [text])]) for text in ["", *facts]]


def _empty(text: str) -> str:
    text = text.strip()
    return text if text in ("[]", "{}") else "" if text else "(empty)"


def _short(text: str) -> str:
    """Return a short result in quotes; nothing of a longer one."""
    text = text.strip()
    plain = text.isprintable() and not set("[]<>{}").intersection(text)
    if len(text) > _SHORT_CHARACTERS or not plain or reads_as_orders(text):
        return ""
    return f'"{text}"' if any(map(str.isalpha, text)) else text


_TARGET = re.compile(
    r"(?:>{1,2}|\btee(?: -a)?)\s{0,4}([\w./~$-]{1,200})|^\*\*\* (?:Add|Update) File: (\S{1,200})",
    re.MULTILINE,
)
_PATH_KEYS = ("file_path", "path", "filename", "file", "notebook_path", "target_file")
_WRITTEN_LINES = 4


def _written(step: Step) -> str:
    """Return the name of the file or patch that the agent wrote in a step; empty if it wrote none.

    A script that has no name counts as one of its own.
    """
    texts = [command_of(step.action)] if not step.calls else [c.arguments for c in step.calls]
    for text in texts:
        lines = text.count("\n") + text.count("\\n")
        if lines < _WRITTEN_LINES:
            continue
        target = _TARGET.search(text[:4_000])
        if target:
            return target[1] or target[2]
        try:
            given = json.loads(text) if step.calls else {}
        except (ValueError, RecursionError):
            given = {}
        for key in _PATH_KEYS:
            if isinstance(given, dict) and isinstance(given.get(key), str):
                return str(given[key])
        if "<<" in text:
            return f"step {step.number}"
    return ""
