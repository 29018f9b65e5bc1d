"""What a student may say: the action templates of its world, with names from its prompt.

A small model that has learnt how a world's actions look still makes up names: the fridge with
the next number, where there is one fridge. Held to its wording it can name only what it was told.
It also says the same thing over and over, so an action that has just led to nothing cannot be said
again until something else is seen, nor one that has brought the same twice a third time. Only the
prompt decides, as the student reads it: a name that a method left out cannot be named, and whether
an action is possible is not said.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agora_lab.backbones import Messages
from agora_lab.backbones.readers.left import apart

Choices = tuple[bytes, ...] | None
"""What may stand at a place of a template; None is any text in brackets, at least a letter."""
Template = tuple[Choices, ...]

_BRACKETS = re.compile(rb"[\[\]\n]")
_NAME = re.compile(r"(?<![\w-])[a-z]{2,20} [0-9]{1,3}(?!\w)")
_NOTHING = "Nothing happens."
_NO_NAME = ("step ", "steps ")
"""Begin markers of what was left out."""
_PART = re.compile(r" \[SEP\] |\n")
"""Parts the names on a page; what a method adds stands on lines of its own."""


@dataclass(frozen=True, slots=True)
class Wording:
    """The actions of some templates, without those that are spent."""

    templates: tuple[Template, ...]
    spent: frozenset[bytes] = frozenset()

    def begins(self, text: bytes) -> bool:
        """Whether an action begins with this text."""
        some = [one for one in self.templates if _begins(one, text)]
        if not any(one.startswith(text) for one in self.spent):
            return bool(some)
        return any(None in one for one in some) or bool(self.completed(text))

    def allows(self, text: bytes) -> bool:
        """Whether this text is an action."""
        return text not in self.spent and any(b"" in _after(one, text) for one in self.templates)

    def completed(self, text: bytes) -> bytes:
        """Return an action that begins with this text, or nothing where words are free."""
        found = (one for template in self.templates for one in _completed(template, text))
        return next((one for one in found if one not in self.spent), b"")

    def closed(self, text: bytes) -> bytes:
        """Return the action whose free words end with this text, or nothing if there is none."""
        for template in self.templates:
            if None in template:
                rest = template[template.index(None) + 1 :]
                whole = text + b"".join(one[0] for one in rest if one)
                if self.allows(whole):
                    return whole
        return b""


class Beginnings:
    """Which continuations of a text begin an action, for asking about a whole vocabulary.

    Whatever begins an action does so byte by byte, so what begins with a wrong byte is not looked
    at further: some hundred questions to the wording answer fifty thousand.
    """

    def __init__(self, wording: Wording, text: bytes) -> None:
        self._wording = wording
        self._text = text
        self._known: dict[bytes, bool] = {}

    def __call__(self, more: bytes) -> bool:
        """Whether an action begins with the text and this after it."""
        return all(self._begins(more[:end]) for end in range(1, len(more) + 1))

    def _begins(self, more: bytes) -> bool:
        if more not in self._known:
            self._known[more] = self._wording.begins(self._text + more)
        return self._known[more]


def wording(world: str, messages: Messages) -> Wording | None:
    """Return what a student may say to messages in its format; None where it may say anything."""
    said = [(str(one["role"]), str(one["content"])) for one in messages]
    if world == "alfworld":
        return _household(said)
    if world == "webshop":
        return _shop(said)
    return None


def _household(said: Sequence[tuple[str, str]]) -> Wording:
    """Return ALFWorld's actions with all names of the prompt.

    Doing the same thing twice in a row never does anything there.
    """
    found = (name for _, text in said for name in _NAME.findall(text))
    names = _choices(name for name in found if not name.startswith(_NO_NAME))
    one = ("go to ", "open ", "close ", "use ", "examine ")
    two = [("take ", " from "), ("put ", " in/on ")]
    two += [(f"{verb} ", " with ") for verb in ("clean", "heat", "cool")]
    named: list[Template] = [(_choices([verb]), names) for verb in one]
    named += [(_choices([verb]), names, _choices([joint]), names) for verb, joint in two]
    spent = set()
    for action, seen in _steps(said):
        spent.add(action)
        if seen != _NOTHING:
            break
    bare: Template = (_choices(["look", "inventory"]),)
    return Wording((bare, *(named if names else ())), frozenset(spent | _worn(said)))


def _shop(said: Sequence[tuple[str, str]]) -> Wording:
    """Return WebShop's actions: any search, and clicks on what stands on the last page."""
    page = next((text for role, text in reversed(said) if role == "user"), "")
    shown = _choices(part.strip() for part in _PART.split(page))
    search: Template = (b"search[",), None, (b"]",)
    click: Template = (b"click[",), shown, (b"]",)
    spent = set()
    steps = list(_steps(said))
    for (action, seen), (_, before) in pairwise(steps):
        if seen != before:
            break
        spent.add(action)
    return Wording((search, click), frozenset(spent | _worn(said)))


def _steps(said: Sequence[tuple[str, str]]) -> Iterator[tuple[bytes, str]]:
    """Yield actions with what was seen after them, the newest first."""
    for at in range(len(said) - 1, 0, -1):
        if said[at][0] == "user" and said[at - 1][0] == "assistant":
            yield said[at - 1][1].encode(), said[at][1]


def _worn(said: Sequence[tuple[str, str]]) -> set[bytes]:
    """Return the actions that have brought the same more than once.

    What several steps brought is told by the newest line alone, so of an action that was done
    again a line without names, or with an error, says that it brought nothing else.
    """
    steps = Counter(_steps(said))
    worn = {action for (action, _), times in steps.items() if times > 1}
    lines = [line for _, text in said for line in apart(text).lines]
    often = Counter([line.done.encode() for line in lines])
    often.update({action for action, _ in steps})
    bare = {line.done.encode() for line in lines if not line.told.records}
    return worn | {action for action in bare if often[action] > 1}


def _choices(texts: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(text.encode() for text in texts if text))


def _begins(template: Template, text: bytes) -> bool:
    if not text:
        return True
    if not template:
        return False
    if template[0] is None:
        # Free words may go on.
        if not _BRACKETS.search(text):
            return True
    elif any(one.startswith(text) for one in template[0]):
        return True
    return any(_begins(template[1:], rest) for rest in _without(template[0], text) if rest)


def _after(template: Template, text: bytes) -> Iterator[bytes]:
    """Yield what is left of a text after the whole template, each way that it can be read."""
    if not template:
        yield text
        return
    for rest in _without(template[0], text):
        yield from _after(template[1:], rest)


def _completed(template: Template, text: bytes) -> Iterator[bytes]:
    """Yield actions that begin with the text, as long as no free words are to be found."""
    if not template:
        if not text:
            yield b""
        return
    for one in template[0] or ():
        if one.startswith(text) or text.startswith(one):
            for rest in _completed(template[1:], text[len(one) :]):
                yield one + rest
    if template[0] is None and (end := _BRACKETS.search(text)):
        for rest in _completed(template[1:], text[end.start() :]):
            yield text[: end.start()] + rest


def _without(choices: Choices, text: bytes) -> Iterator[bytes]:
    """Yield what is left of a text after one of the choices."""
    if choices is None:
        end = _BRACKETS.search(text)
        if end and end.start():
            yield text[end.start() :]
        return
    for one in choices:
        if text.startswith(one):
            yield text[len(one) :]
