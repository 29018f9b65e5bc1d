"""Questions with known short answers about what an agent saw and did, from recorded messages."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora_lab.chats import text_of

DISTRACTORS = 4
LONGEST_ANSWER = 40
_LONGEST_SUBJECT = 110
_READS = re.compile(r"^(get|find|search|list|calculate|think|transfer|read|view)")
"""Tools that only look: what was done is asked of the others."""
_BLOCK = re.compile(r"```(?:bash|sh)?\n(.*?)```", re.DOTALL)
_OUTPUT = re.compile(r"<output>\n?(.*?)\n?</output>", re.DOTALL)
_PATH = r"[\w./-]+\.[a-z]{1,5}"
_MATCH = re.compile(rf"^({_PATH}):(?:(\d+):)?\s*([ -~]+)$")
_EDITED = re.compile(rf"\bsed -i\S*\s.*?\s({_PATH})\s*$", re.MULTILINE)
_WROTE = re.compile(rf">\s*({_PATH})\s*$", re.MULTILINE)
_PLAIN = re.compile(r"[\w .,:%/+-]+")
_CLOSEST = ("item_id", "flight_number", "reservation_id", "order_id")
"""Of several identifiers in one record, those that name the record itself."""
_BESIDE = re.compile(r"^\s*([\w.]{2,40})\s+((?:/|\./|\w+/)[\w./-]+)$")
_DESCRIBED = re.compile(r"^(?:desc|describe|show columns from)\s+`?(\w+)`?;?$", re.IGNORECASE)
_COLUMN = re.compile(r"\('(\w+)', b?['\"]([^'\"]+)['\"],")

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something the log says, as a question and its answer."""

    template: str
    question: str
    field: str
    """What sort of value the answer is: wrong answers are other values of the same field."""
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, its answer, and the choices that it stands among."""

    template: str
    question: str
    answer: str
    choices: tuple[str, ...]
    from_log: int
    """How many of the wrong choices stand in the same log."""


def normal(text: str) -> str:
    """Return an answer as answers are compared: without case, quotes, and ends that say nothing.

    >>> normal(' "In Progress". '), normal("$113.00")
    ('in progress', '113')
    """
    plain = " ".join(text.casefold().split()).strip("\"'`.,:;!?()[]{}#$ ")
    number = re.fullmatch(r"(-?\d+)\.0+", plain)
    return number.group(1) if number else plain


def facts(messages: Sequence[Message]) -> Iterator[Fact]:
    """Yield what the tool calls and results of a log say."""
    commanded = ""
    for message in messages:
        text = text_of(message)
        if message.get("role") == "assistant":
            yield from _done(message)
            block = _BLOCK.search(text)
            commanded = "" if message.get("tool_calls") else (block.group(1) if block else text)
            yield from _edited(commanded)
        elif message.get("role") == "tool":
            yield from _of_json(text)
        elif commanded:
            found = _OUTPUT.search(text)
            yield from _printed(commanded.strip(), found.group(1) if found else text)
            commanded = ""


def ask(
    known: Sequence[Fact],
    floor_text: str,
    pool: Mapping[str, Sequence[str]],
    *,
    most: int,
    seed: str,
) -> list[Question]:
    """Return questions to ask at an anchor, templates in turn.

    Left out is what has two answers in the log, what the floor still says, what the
    question gives away, and what has too few wrong answers of the same field, in the
    log or, where that has not enough, in `pool`.
    """
    answers: dict[str, dict[str, Fact]] = {}
    values: dict[str, list[str]] = {}
    for fact in known:
        answers.setdefault(fact.question, {})[normal(fact.answer)] = fact
        values.setdefault(fact.field, []).append(fact.answer)
    by_template: dict[str, list[Question]] = {}
    for own in answers.values():
        [fact, *others] = own.values()
        if others or _stands_in(fact.answer, floor_text) or _stands_in(fact.answer, fact.question):
            continue
        made = _question(fact, values[fact.field], pool.get(fact.field, ()), seed)
        if made:
            by_template.setdefault(fact.template, []).append(made)
    for questions in by_template.values():
        questions.sort(key=lambda one: _lot(seed, one.question))
    found: list[Question] = []
    while len(found) < most and any(by_template.values()):
        found += [own.pop(0) for own in by_template.values() if own]
    return found[:most]


def pools(known: Iterable[Fact]) -> dict[str, list[str]]:
    """Return the values of each field over many logs, each once."""
    found: dict[str, dict[str, str]] = {}
    for fact in known:
        found.setdefault(fact.field, {}).setdefault(normal(fact.answer), fact.answer)
    return {field: list(values.values()) for field, values in found.items()}


def _question(
    fact: Fact, here: Sequence[str], elsewhere: Sequence[str], seed: str
) -> Question | None:
    answer = normal(fact.answer)
    own = {normal(value): value for value in here if normal(value) != answer}
    log = sorted(own.values(), key=lambda value: _lot(seed, fact.question, value))[:DISTRACTORS]
    taken = {answer, *(normal(value) for value in log)}
    rest = [value for value in elsewhere if normal(value) not in taken]
    more = sorted(rest, key=lambda value: _lot(seed, fact.question, value))
    wrong = [*log, *more[: DISTRACTORS - len(log)]]
    if len(wrong) < DISTRACTORS:
        return None
    choices = sorted([fact.answer, *wrong], key=lambda value: _lot("order", seed, value))
    return Question(
        template=fact.template,
        question=fact.question,
        answer=fact.answer,
        choices=tuple(choices),
        from_log=len(log),
    )


def _stands_in(answer: str, text: str) -> bool:
    """Return whether a text has the answer as whole words."""
    pattern = rf"(?<![\w.]){re.escape(normal(answer))}(?!\w)"
    return re.search(pattern, text.casefold()) is not None


def _done(message: Message) -> Iterator[Fact]:
    """Yield with which arguments something was changed."""
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        name = str(function.get("name", ""))
        try:
            arguments = json.loads(function.get("arguments") or "{}")
        except (TypeError, ValueError):
            continue
        if _READS.match(name) or not isinstance(arguments, Mapping):
            continue
        for key, value in arguments.items():
            if (answer := _scalar(value)) is not None:
                yield Fact(
                    template="done",
                    question=f"With which {_words(key)} was {name} called?",
                    field=str(key),
                    answer=answer,
                )


def _of_json(text: str) -> Iterator[Fact]:
    """Yield what a result in JSON says about the things it names."""
    try:
        value = json.loads(text)
    except ValueError:
        return
    yield from _seen(value, "")


def _seen(value: Any, name: str) -> Iterator[Fact]:
    if isinstance(value, list):
        for one in value:
            yield from _seen(one, "")
    if not isinstance(value, Mapping):
        return
    # A thing is named by its own identifier, or by the key it stands under.
    ids = [key for key in (*_CLOSEST, *value) if _names(key, value.get(key))]
    named = _named(ids[0], value[ids[0]]) if ids else name
    for key, own in value.items():
        answer = _scalar(own)
        if named and answer is not None and not _names(key, own):
            question = f"What is the {_words(key)} of {named}?"
            yield Fact(template="seen", question=question, field=str(key), answer=answer)
        elif answer is None:
            yield from _seen(own, str(key) if any(c.isdigit() for c in str(key)) else "")


def _names(key: Any, value: Any) -> bool:
    named = str(key).endswith("_id") or key in ("id", "flight_number")
    return named and isinstance(value, str) and bool(value)


def _named(key: str, value: str) -> str:
    """Return how a question names a record.

    >>> _named("order_id", "#W1"), _named("flight_number", "HAT1"), _named("id", "card_1")
    ('order #W1', 'flight HAT1', 'card_1')
    """
    what = _words(key.removesuffix("_id").removesuffix("_number").removesuffix("id"))
    return f"{what} {value}".strip()


def _edited(command: str) -> Iterator[Fact]:
    for match in _EDITED.finditer(command):
        question = "Which file was edited in place with sed?"
        yield Fact(template="edited", question=question, field="path", answer=match.group(1))
    for match in _WROTE.finditer(command):
        question = "Which file was written by redirecting output into it?"
        yield Fact(template="edited", question=question, field="path", answer=match.group(1))


def _printed(command: str, output: str) -> Iterator[Fact]:
    """Yield what a command printed, where that is short or has a form that is known."""
    described = _DESCRIBED.match(command)
    if described:
        for column, kind in _COLUMN.findall(output):
            question = f"Which table has the column {column}?"
            yield Fact(
                template="column", question=question, field="table", answer=described.group(1)
            )
            question = f"What is the type of {column} in {described.group(1)}?"
            yield Fact(template="type", question=question, field="type", answer=kind)
        return
    lines = output.strip().splitlines()
    single = _scalar(lines[0].strip("[](),' ")) if len(lines) == 1 else None
    asked = len(command) <= _LONGEST_SUBJECT and "\n" not in command
    if asked and single is not None and _PLAIN.fullmatch(single):
        question = f"What did `{command}` print?"
        yield Fact(template="printed", question=question, field="printed", answer=single)
    for line in lines:
        yield from _of_line(line)


def _of_line(line: str) -> Iterator[Fact]:
    if found := _MATCH.match(line):
        path, number, text = found.groups()
        if 8 <= len(text) <= _LONGEST_SUBJECT:
            question = f"Which file has the line `{text}`?"
            yield Fact(template="file", question=question, field="path", answer=path)
            if number:
                question = f"On which line of {path} is `{text}`?"
                yield Fact(template="line", question=question, field="line", answer=number)
    elif found := _BESIDE.match(line):
        value, path = found.groups()
        question = f"Which value stands beside {path}?"
        yield Fact(template="beside", question=question, field="beside", answer=value)


def _scalar(value: Any) -> str | None:
    """Return a value that can be an answer: a number or a short text, and neither yes nor no."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    short = 2 <= len(normal(text)) <= LONGEST_ANSWER and "\n" not in text
    return text if short and len(text.split()) <= 3 else None


def _words(key: str) -> str:
    return str(key).replace("_", " ")


def _lot(*parts: str) -> bytes:
    """Return what orders things as if by lot, the same each time."""
    return hashlib.blake2b("|".join(parts).encode(), digest_size=8).digest()
