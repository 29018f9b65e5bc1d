"""Shows a contender each call of a session, and notes the prompt that it would send.

This file imports only the standard library: it also runs inside the contenders' own environments,
as a worker of `agora_lab.methods.isolated`.
"""

import json
import runpy
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from time import process_time
from typing import Any, NamedTuple

Message = dict[str, Any]
_ASK_EVERY = 8
_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "thinking")


class Sent(NamedTuple):
    """A contender's prompt for a call."""

    prompt: list[int]
    """Numbers of messages in the table: first the session's own, then those the contender made."""
    cpu_ms: float


class Table:
    """Every message of a session, and every one that a contender made in its place."""

    def __init__(self, messages: Sequence[Message], *, thinking: bool) -> None:
        """Take the session's messages; `thinking` says if the contender sees it."""
        self.messages = list(messages)
        self._thinking = thinking
        self.shown = [message if thinking else _without(message) for message in messages]
        self._numbers: dict[str, list[int]] = {}
        self._objects = {id(message): at for at, message in enumerate(self.shown)}
        self._alive: list[Message] = []
        self._calls: dict[str, int] = {}
        for at, message in enumerate(self.shown):
            self._numbers.setdefault(_key(message), []).append(at)
            if message.get("tool_calls"):
                self._calls[_ids(message)] = at

    def numbers(self, prompt: Sequence[Message]) -> list[int]:
        """Return the numbers of a prompt's messages; new ones are added to the table."""
        numbers: list[int] = []
        last = -1
        for message in prompt:
            at = self._objects.get(id(message))
            if at is None:
                at = self._number(message, last)
            numbers.append(at)
            last = at if at < len(self.shown) else last
        return numbers

    def _number(self, message: Message, last: int) -> int:
        plain = _plain(message)
        same = self._numbers.setdefault(_key(plain), [])
        at = next((number for number in same if number > last), same[-1] if same else None)
        if at is None:
            at = len(self.messages)
            same.append(at)
            answer = self._calls.get(_ids(plain)) if plain.get("tool_calls") else None
            if answer is not None and not self._thinking and "thinking" in self.messages[answer]:
                plain["thinking"] = self.messages[answer]["thinking"]
            self.messages.append(plain)
        # An object's id is unique only while a reference to the object exists.
        self._alive.append(message)
        self._objects[id(message)] = at
        return at


Edit = Callable[[list[Message], dict[str, Any]], Sequence[Message]]


def turns(
    edit: Edit,
    table: Table,
    calls: Sequence[int],
    about: Mapping[str, Any],
    *,
    keeps: bool = False,
    pure: bool = False,
) -> Generator[Sent, Any, None]:
    """Yield the prompt of each call.

    A hook that changes the history itself (`keeps`) is shown its own last prompt and what came
    since; any other hook is shown the whole history. Whatever is sent into the generator reaches
    the next call as `answered`. A hook is `pure` if equal messages always give an equal prompt.
    """
    if pure:
        yield from _spread(edit, table, calls, about)
        return
    last: list[Message] = []
    done, answered = 0, None
    about = {**about, "sent_tokens": _counter(table, about)}
    for number, call in enumerate(calls):
        history = last + table.shown[done:call] if keeps else table.shown[:call]
        clock = about.get("at_seconds") or ()
        now = clock[number] if clock else None
        start = process_time()
        last = list(edit(history, {**about, "number": number, "now": now, "answered": answered}))
        spent = 1000 * (process_time() - start)
        done = call
        answered = yield Sent(table.numbers(last), spent)


def _spread(
    edit: Edit, table: Table, calls: Sequence[int], about: Mapping[str, Any]
) -> Iterator[Sent]:
    """Yield the prompt of each call, asking a slow hook at every eighth call and at the last.

    Where the prompt between two of them has only grown, message by message, the calls between have
    sent its beginnings. Where it has not, each of them is asked.
    """
    asked: dict[int, Sent] = {}

    def ask(number: int) -> Sent:
        if number not in asked:
            shown = table.shown[: calls[number]]
            start = process_time()
            prompt = edit(shown, {**about, "number": number})
            spent = 1000 * (process_time() - start)
            asked[number] = Sent(table.numbers(prompt), spent)
        return asked[number]

    for first in range(0, len(calls), _ASK_EVERY):
        old, end = ask(first), min(first + _ASK_EVERY, len(calls) - 1)
        new = ask(end)
        grew = (
            len(old.prompt) == calls[first]
            and len(new.prompt) == calls[end]
            and new.prompt[: calls[first]] == old.prompt
        )
        cpu_ms = (old.cpu_ms + new.cpu_ms) / 2
        yield old
        for number in range(first + 1, end + (end % _ASK_EVERY > 0)):
            yield Sent(new.prompt[: calls[number]], cpu_ms) if grew else ask(number)


def _counter(table: Table, about: Mapping[str, Any]) -> Callable[[Sequence[Message]], int]:
    """Return a function that counts a prompt as the provider's last usage would show it."""
    tokens = about["tokens"]

    def count(prompt: Sequence[Message]) -> int:
        size = float(about["before"])
        for at in table.numbers(prompt):
            made = table.messages[at] if at >= len(tokens) else None
            size += tokens[at] if made is None else about["scale"] * len(str(made)) / 4
        return round(size)

    return count


def prepare(options: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function that runs the contender in a file on a whole session."""
    contender = runpy.run_path(options["file"])

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        table = Table(request["messages"], thinking=bool(contender.get("THINKING")))
        own = len(table.messages)
        edit = contender["prepare"](options["settings"])
        ways = {"keeps": bool(contender.get("KEEPS")), "pure": bool(contender.get("PURE"))}
        sent = list(turns(edit, table, request["calls"], request["about"], **ways))
        prompts: list[tuple[int, list[int]]] = []
        before: list[int] = []
        for one in sent:
            same = 0
            for old, new in zip(before, one.prompt, strict=False):
                if old != new:
                    break
                same += 1
            prompts.append((same, one.prompt[same:]))
            before = one.prompt
        cpu_ms = [round(one.cpu_ms, 3) for one in sent]
        return {"prompts": prompts, "made": table.messages[own:], "cpu_ms": cpu_ms}

    return answer


def _without(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "thinking"}


def _plain(message: Message) -> Message:
    plain = {key: message[key] for key in _FIELDS if message.get(key)}
    content = plain.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content)
    return {**plain, "content": str(content)}


def _key(message: Message) -> str:
    fields = _plain(message)
    if "tool_calls" in fields:
        fields["tool_calls"] = [
            (call["id"], call["function"]["name"], _value(call["function"]["arguments"]))
            for call in fields["tool_calls"]
        ]
    return json.dumps(fields, sort_keys=True)


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def _ids(message: Message) -> str:
    return " ".join(sorted(str(call["id"]) for call in message.get("tool_calls") or ()))
