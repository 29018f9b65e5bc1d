"""What an edit wrote into a prompt: every marker found, and held against the steps it names."""

import json
import re
from collections.abc import Iterator
from typing import Any

from agora import Compression
from agora.core import Markers, omitted
from agora.core.markers import NOT_THE_USER
from agora.core.recall import TOOL_NAME
from harness.histories import History
from harness.shortened import ORIGIN

TEXT_FORMATS = ("transcript",)

# The words are those of today's markers; their grammar is what is held.
_REMOVED = re.escape(Markers().run([omitted(3)]).removeprefix("[step 3").removesuffix("]"))
_NOTED = re.escape(Markers().note(3, "").removeprefix("[step 3").removesuffix("]"))
_ORIGIN = re.escape(ORIGIN)
_HINT = rf"(?:; {TOOL_NAME} shows one by its number)?"
_LINE = r"\n\d+ [^\n]+"
_TAG = r"(?:,? tag #[0-9a-f]{4}| #[0-9a-f]{4})?"
_BY = rf"(?:{_ORIGIN}(?:{NOT_THE_USER})?)?{_TAG}"
_RUN = re.compile(rf"\[(?:step (\d+)|steps (\d+)-(\d+)){_REMOVED}{_BY}{_HINT}\]((?:{_LINE})*)")
_NOTE = re.compile(rf"\[step (\d+){_NOTED}(?:{_ORIGIN})?{_TAG}{_HINT}\](?: ([^\n]+))?")


def with_observations(history: History, compression: Compression) -> tuple[str, set[int]]:
    """Put back what notes replaced; return the text, and the steps whose notes were found."""
    text: str = compression.messages
    noted: set[int] = set()
    for decision in compression.decisions:
        if decision.kind != "note":
            continue
        start, end = history.closed[decision.number - 1]
        note = next(n for n in _NOTE.finditer(text) if int(n[1]) == decision.number)
        brought = decision.text
        assert (note[2] or "").startswith(brought)
        assert_names_stand_in(told_names(brought), decision.number, history)
        size, before = max(
            (size, before)
            for before in (text[: note.start()], text[: note.start()].removesuffix(" "))
            for size in range(1, end - start + 1)
            if before.endswith(history.messages[start : start + size])
        )
        rest = history.messages[start + size : end]
        after = text[note.end(2) - len(note[2]) + len(brought) if note[2] else note.end() :]
        text = before + rest + after[len(after) - len(after.lstrip()) :]
        noted.add(decision.number)
    return text, noted


def markers_in_text(history: History, text: str, elided: set[int]) -> set[int]:
    """Walk the output piece by piece; return the steps that its markers name."""
    reported: set[int] = set()
    whole = history.messages
    starts = {n: start for n, (start, _) in enumerate(history.closed, start=1)}
    first = min(elided)
    assert text.startswith(whole[: starts[first]]), "kept text is not verbatim"
    at = starts[first]
    number = first
    while number <= history.steps:
        end = number
        while end + 1 in elided:
            end += 1
        kept_from = history.closed[end - 1][1]
        number = min((n for n in elided if n > end), default=history.steps + 1)
        piece = whole[kept_from : starts.get(number)]
        found = text.find(piece, at)
        assert found >= 0, "kept text is not verbatim"
        if piece:
            gap = whole[kept_from - 1]
            assert text[found - 1] == gap, "a block does not begin where one can begin"
        reported |= named_steps(text[at:found].rstrip(), history)
        at = found + len(piece)
    assert at == len(text), "something stands after the last text"
    return reported


def markers_in_messages(history: History, compression: Compression) -> set[int]:
    """Compare each message with the one it was; return the steps that markers name."""
    reported: set[int] = set()
    positions = compression.positions
    assert list(positions) == sorted(set(positions)), "messages are out of order"
    assert len(positions) == len(compression.messages)
    owner = {p: n for n, own in enumerate(history.closed, start=1) for p in own}
    for at, (position, after) in enumerate(zip(positions, compression.messages, strict=True)):
        before = history.messages[position]
        for text, replaced in added_texts(before, after):
            markers = (_unframed(text, before) if replaced else text).split("\n\n")
            # Where nothing stood, a marker of the step itself is a mask, any other a run's.
            own = _NOTE.match(markers[0])
            if replaced or (own and int(own[1]) == owner.get(position)):
                assert position in owner, "a text outside of every step was replaced"
                reported |= masked_step(markers.pop(0), owner[position], history)
            for marker in markers:
                reported |= named_steps(marker, history)
                if users_words(after) and any(map(holds_text, compression.messages[:at])):
                    assert_tells_of_no_tool(marker, compression)
            if markers and users_words(after):
                head = markers[0].partition("\n")[0]
                assert NOT_THE_USER in head, "a marker among the user's words is not signed"
    return reported


def holds_text(message: dict[str, Any]) -> bool:
    """Return True if a message is a result that can take a text, not a picture or a null."""
    if message.get("role") in ("tool", "function"):
        return isinstance(message.get("content"), str | list)
    if "output" in message:
        return isinstance(message["output"], str | list)
    parts = message.get("parts", message.get("content"))
    blocks = parts if isinstance(parts, list) else []
    answers = [b.get("functionResponse", b.get("function_response")) for b in blocks]
    last = next((answer for answer in reversed(answers) if answer), None)
    if last is not None:
        said = last.get("response") or {}
        fields = ("output", "result", "error", "content", "note")
        free = not {"output", "note"} <= said.keys()
        return free or any(isinstance(said.get(field), str) for field in fields)
    return any({"toolResult", "tool_use_id"} & block.keys() for block in blocks)


def assert_tells_of_no_tool(marker: str, compression: Compression) -> None:
    """Check that a marker among the user's words has no line for a step that called a tool."""
    assert compression.trajectory is not None
    for line in marker.split("\n")[1:]:
        step = compression.trajectory.steps[int(line.partition(" ")[0]) - 1]
        assert not step.calls, "what a tool said stands among the user's words"


def _unframed(text: str, before: Any) -> str:
    """Return a text that replaced another without the frame that it took over from it."""
    note = _NOTE.search(text)
    if note is None:
        return text
    frame = text[: note.start()]
    rest, gap, markers = text[note.end() :].partition("\n\n")
    assert all(part in json.dumps(before) for part in (frame + rest).split())
    return note[0] + gap + markers


def users_words(message: dict[str, Any]) -> bool:
    """Return True if text added to a message is among the user's words, not in a result."""
    parts = message.get("parts", message.get("content"))
    results = {"functionResponse", "function_response", "toolResult", "tool_use_id"}
    inside = isinstance(parts, list) and any(results & part.keys() for part in parts)
    return message.get("role") == "user" and not inside


def masked_step(marker: str, owner: int, history: History) -> set[int]:
    """Return the step that the marker in place of a result names, once it is checked."""
    match = _NOTE.fullmatch(marker)
    assert match is not None, f"{marker!r} is neither the caller's nor a marker"
    assert int(match[1]) == owner, "a marker names another step"
    assert_names_stand_in(told_names(match[2] or ""), owner, history)
    return {owner}


def added_texts(before: Any, after: Any) -> Iterator[tuple[str, bool]]:
    """Yield each text that was added to a message, and whether it replaced what stood there.

    Nothing else may differ, but for cache breakpoints, which move up.
    """
    if before == after:
        return
    if isinstance(before, str) and isinstance(after, str):
        if after.startswith(before + "\n\n"):
            yield after[len(before) + 2 :], False
        else:
            yield after, bool(before)
    elif isinstance(before, str) and isinstance(after, list):
        assert [set(block) <= {"type", "text", "cache_control"} for block in after] == [True]
        yield from added_texts(before, after[0]["text"])
    elif isinstance(before, list) and isinstance(after, list):
        before, after = ([b for b in blocks if "cachePoint" not in b] for blocks in (before, after))
        kinds, kinds_after = ([_kind(part) for part in parts] for parts in (before, after))
        if kinds_after[: len(kinds)] == kinds and not _begins_anew(before, after):
            for one, other in zip(before, after, strict=False):
                yield from added_texts(one, other)
            rest = after[len(before) :]
        else:
            yield after[0]["text"], True
            rest = after[1:]
        # Where nothing stood, a mask comes first and a marker for the steps after it may follow.
        assert len(rest) <= (1 if before else 2), "blocks were added"
        assert all(map(_is_text, rest))
        yield from ((part["text"], False) for part in rest)
    else:
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        for key in (before.keys() | after.keys()) - {"cache_control"}:
            if key in _HOLD_TEXT:
                yield from added_texts(before.get(key, ""), after[key])
            elif key in ("functionResponse", "function_response"):
                yield from _added_to_response(before[key], after[key])
            else:
                assert before[key] == after[key], f"the field {key} was changed"


_HOLD_TEXT = frozenset({"content", "output", "text", "parts", "toolResult"})


def _added_to_response(before: Any, after: Any) -> Iterator[tuple[str, bool]]:
    """Yield what was added to a function response of Gemini's, or replaced what it said."""
    said, said_after = before["response"], after["response"]
    kept = {key: value for key, value in before.items() if key != "response"}
    kept_after = {key: value for key, value in after.items() if key != "response"}
    changed = [key for key in said_after if said.get(key) != said_after[key]]
    if kept == kept_after and not changed and said == said_after:
        return
    assert len(changed) == 1, "more than one field of a response was changed"
    field = changed[0]
    if kept == kept_after and said_after == {**said, field: said_after[field]}:
        yield from added_texts(said.get(field, ""), said_after[field])
        return
    # Masked: nothing of what it said stays, and no picture that came with it.
    kept.pop("parts", None)
    assert kept == kept_after
    assert set(said_after) == {field}
    yield said_after[field], True


def _begins_anew(before: list[Any], after: list[Any]) -> bool:
    """Return True if the first text was replaced: then nothing after it is the caller's."""
    was = before[0].get("text") if before else None
    return bool(was) and after[0]["text"] != was and not after[0]["text"].startswith(f"{was}\n\n")


def _kind(block: Any) -> object:
    """Return the kind of a block: its type, or else its fields."""
    return block.get("type", sorted(block))


def _is_text(block: Any) -> bool:
    return set(block) <= {"type", "text", "cache_control"} and block.get("type", "text") in (
        "text",
        "input_text",
    )


def named_steps(marker: str, history: History) -> set[int]:
    """Return the steps that a run's marker names, once its grammar and its names are checked."""
    match = _RUN.fullmatch(marker)
    assert match is not None, f"{marker!r} does not match the grammar of markers"
    first, last = int(match[1] or match[2]), int(match[1] or match[3])
    numbers = set(range(first, last + 1))
    for line in match[4].split("\n")[1:]:
        number, _, words = line.partition(" ")
        assert int(number) in numbers, "a line stands for a step of another run"
        command, words = quoted_command(words)
        head, arrow, names = words.rpartition(" -> ")
        if not arrow:
            head, names = words, ""
        said = [command] if command else done_words(head)
        assert_names_stand_in([*said, *told_names(names)], int(number), history)
    return numbers


def quoted_command(words: str) -> tuple[str, str]:
    """Return the command that a line gives word for word, and what follows; or none, and all."""
    if not words.startswith('"'):
        return "", words
    try:
        command, end = json.JSONDecoder().raw_decode(words)
    except ValueError:
        return "", words
    return command, words[end:]


def assert_names_stand_in(names: list[str], number: int, history: History) -> None:
    """Check that each name stands word for word in the step it is listed for."""
    positions = history.closed[number - 1]
    if history.format in TEXT_FORMATS:
        source = history.messages[positions[0] : positions[1]]
    else:
        messages = [history.messages[position] for position in positions]
        texts = [text for message in messages for text in texts_in(message)]
        # Where texts are JSON, with signs escaped, what they say counts.
        texts += [text for one in texts for text in texts_in(_decoded(one))]
        # Where arguments are an object, their text is its JSON.
        source = "\n".join([*texts, json.dumps(messages, ensure_ascii=False)])
    for name in names:
        assert name in source, f"{name!r} does not stand in step {number}"


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


_SAID_OF_A_STEP = re.compile(r"(?:^|; )\+\d+$|^(?:error|exit -?\d+)(?= |$)")


_LEFT_OUT = "…"
"""Says that an action goes on; it is nobody's word."""
_EMPTY = "(empty)"
"""Stands for a result that has nothing in it."""
_NO_NAME = "tool"
"""Stands for a tool whose name is not one."""


def told_names(told: str) -> list[str]:
    """Return the words of what a step brought that have to stand in it."""
    words = re.split(r"[ ;=.,|]+", _SAID_OF_A_STEP.sub("", told))
    return [word.strip(f'"{_LEFT_OUT}') for word in words if word != _EMPTY]


def done_words(done: str) -> list[str]:
    """Return the words of what a step did that have to stand in it."""
    words = re.sub(r"(?:; |^)\+\d+(?: calls)?$", "", done).split()
    own = [word for word in words if word.strip(";") not in (_LEFT_OUT, _NO_NAME)]
    parts = [part.strip("\";'") for word in own for part in re.split("[=,]", word)]
    return [part.strip(_LEFT_OUT) for part in parts]


def texts_in(value: Any) -> Iterator[str]:
    """Yield every string in a message, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
