"""The forms of a step in the prompt: whole, with notes, a line in a marker, or omitted."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from agora.core.action_lines import CUT, action_lines, verbatim_command
from agora.core.actions import Tools, changes, command_of
from agora.core.facts import chosen_facts, facts_in, names_in, reads_as_orders
from agora.core.outcome import body_of, outcome_of
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Result, Step

FACT_COUNTS = (0, 2, 4, 8, 16)
"""How many facts a line or note gives of each result, from the shortest to the longest."""
_ARROW = " -> "
_SHORT_CHARACTERS = 60
_NOTE_TOKENS = 14
"""Tokens of a note's frame."""


class Place(NamedTuple):
    """The texts in the places of one call and of its result; None is the caller's own."""

    action: str | None = None
    result: str | None = None


class Form(NamedTuple):
    """The form of one step in the prompt, and its tokens."""

    number: int
    kind: Literal["omitted", "line", "note", "whole"]
    """A note keeps the call and replaces each result; a line is part of a marker."""
    places: tuple[Place, ...]
    """A place per result, in their order, then one for each call without a result."""
    tokens: int

    @property
    def in_place(self) -> bool:
        """True if the step's own messages stay. Otherwise a marker replaces them."""
        return self.kind in ("note", "whole")

    @property
    def result(self) -> str:
        """The texts in place of the results."""
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
        r"""The text in place of the step: its notes, or its lines in a marker.

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
    shorter: Sequence[Form]
    """From a shortened action to the action word for word, each with more facts."""
    word_for_word: Form | None = None
    """The first of these with its whole action, if the others cut it."""
    may_be_omitted: bool = False
    """True if the step only reads, so that forgetting it does no harm."""
    written: str = ""
    """The file or script that the agent itself wrote in this step."""

    @property
    def least(self) -> Form:
        """The cheapest form."""
        if self.may_be_omitted:
            return omitted(self.whole.number)
        return self.shorter[0] if self.shorter else self.whole


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

    No form repeats a name in `known`, which the rest of the prompt has. Records with a word in
    `topics`, the words of the task and of the user, come first. With `keeps_place` the step's
    calls stay.
    """
    in_place = keeps_place or not step.removable
    reads = not in_place and not changes(step, tools)
    actions = action_lines(step, tools)
    known_here = frozenset(" ".join(actions).replace("=", " ").split())
    full: Form | None = None
    texts = [_result_texts(result, known, known_here, topics) for result in step.results]
    levels = list(dict.fromkeys(zip(*texts, strict=True)))
    if in_place:
        forms = [_note(step, level, counter) for level in levels]
    elif reads and not step.observation.strip() and all(line.endswith(CUT) for line in actions):
        forms = []  # A tool that notes a thought: nothing to name, and no result.
    else:
        forms = [_line(step, actions, level, counter) for level in levels]
        command = verbatim_command(step)
        if command is not None and [command] != actions:
            forms[1:] = [_line(step, [command], level, counter) for level in levels]
            full = forms[1]
        elif step.action_tokens and any(not line or CUT in line for line in actions):
            full = _note(step, levels[-1], counter)
            forms.append(full)
    return Options(
        whole=whole(step),
        shorter=[form for form in forms if form.tokens < step.tokens],
        word_for_word=full if full and full.tokens < step.tokens else None,
        may_be_omitted=reads,
        written="" if reads or in_place else _written(step),
    )


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
    body = body_of(result.text)
    empty = _empty(body)
    if empty:
        return [" ".join([*head, empty])] * len(FACT_COUNTS)
    facts = chosen_facts(facts_in(result.text), known, topics, FACT_COUNTS[1:], said)
    if not facts[-1] and not outcome.reason:
        facts = [_short(body)] * len(facts)
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


_WRITTEN = re.compile(
    r"(?:>{1,2}|\btee(?: -a)?|\*\*\* (?:Add|Update) File:) ?([\w./~$-]{1,200})"
    r'|"(?:file_?path|path|file_?name|target_file)": ?"([^"]{1,200})"'
)
_WRITTEN_LINES = 4


def _written(step: Step) -> str:
    """Return the name of the file or script that the agent wrote; empty if it wrote none."""
    for text in [call.arguments for call in step.calls] or [command_of(step.action)]:
        target = _WRITTEN.search(text[:4_000])
        if text.count("\n") + text.count("\\n") >= _WRITTEN_LINES and (target or "<<" in text):
            return target[1] or target[2] if target else f"step {step.number}"
    return ""
