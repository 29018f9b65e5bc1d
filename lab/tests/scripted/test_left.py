"""What is left of steps, read from prompts that the compressor itself has written."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Budget, Compressor
from agora.core.compression import Compression
from agora.scorers import load_scorer
from agora_lab.agents.scripted import reader
from agora_lab.agents.scripted.left import Line, Told, apart, note, read_line, read_told
from agora_lab.chats import text_of
from agora_lab.envs.desk import WORLD, Desk
from agora_lab.episodes import Cell, Episode
from agora_lab.evaluate.play import Player
from agora_lab.methods import method

SHARES = (0.1, 0.25, 0.5)


@cache
def played() -> Episode:
    desk = Desk()
    player = Player(
        cell=Cell(environment="desk", backbone="reader", method="none"),
        world=WORLD,
        environment=desk,
        backbone=reader("desk"),
        method=method("none"),
    )
    episode, _ = player.play("validation-001")
    desk.close()
    return episode


@cache
def compressed(share: float) -> Compression:
    """Return the conversation up to its end, with so much of it kept."""
    compressor = Compressor(
        edits="every_call",
        min_tokens=0,
        scorer=load_scorer(),
        budget=Budget(keep_ratio=0.0, min_ratio=share),
    )
    messages = played().conversation(len(played().moves) - 1)
    return compressor.compress(messages, format="openai", observations="none")


def steps() -> list[tuple[str, dict[str, Any], Any]]:
    """Return tool, arguments and result of every step, as they were."""
    found = []
    for move in played().moves:
        if move.called:
            tool, _, arguments = move.action.partition(" ")
            found.append((tool, json.loads(arguments), json.loads(move.observation)))
    return found


def lines(found: Compression) -> dict[int, Line]:
    """Return every line under a marker that can be read in the prompt, by its step."""
    read: dict[int, Line] = {}
    for message in found.messages:
        parts = apart(text_of(message), result=message["role"] == "tool")
        read |= {line.number: line for line in parts.lines}
    return read


def notes(found: Compression) -> list[Told]:
    """Return what stands in place of each result that was replaced, in order."""
    own = [
        apart(text_of(message), result=True).own
        for message in found.messages
        if message["role"] == "tool"
    ]
    return [told for told in map(note, own) if told is not None]


def objects(value: Any) -> Iterator[set[tuple[str, str]]]:
    """Yield, for every object in a result, what stands under which key, nested objects included."""
    if isinstance(value, dict):
        own: set[tuple[str, str]] = set()
        for key, inner in value.items():
            if isinstance(inner, dict):
                parts = list(objects(inner))
                own |= parts[0]
                yield from parts
                yield from ({(key, entry)} | part for entry, part in _entries(inner))
            elif isinstance(inner, list):
                own |= {(key, str(item)) for item in inner if not isinstance(item, dict)}
                yield from (part for item in inner for part in objects(item))
            else:
                own.add((key, json.dumps(inner) if isinstance(inner, bool) else str(inner)))
        yield own


def _entries(table: dict[str, Any]) -> Iterator[tuple[str, set[tuple[str, str]]]]:
    for entry, inner in table.items():
        if isinstance(inner, dict):
            yield entry, set().union(*objects(inner))


def assert_told_of(told: Told, result: Any) -> None:
    """Check that the values of each record stand together in one object of the result."""
    found = list(objects(result))
    everything = set().union(*found)
    for record in told.records:
        pairs = {
            (key.rpartition(".")[2], value) for key, values in record.items() for value in values
        }
        together = any(pairs <= one for one in found)
        # Ids of one key that have nothing else to say stand in one group.
        ids = len(record) == 1 and pairs <= everything | {
            (key, entry)
            for key, inner in result.items()
            if isinstance(inner, dict)
            for entry in inner
        }
        assert together or ids, (pairs, result)


@pytest.mark.parametrize("share", SHARES)
def test_every_line_of_a_marker_is_read_and_says_what_was_called(share: float) -> None:
    found = compressed(share)
    wanted = {one.number for one in found.decisions if one.kind == "line"}

    read = lines(found)

    assert read.keys() == wanted
    assert len(wanted) > 5
    for number, line in read.items():
        tool, arguments, _ = steps()[number - 1]
        assert line.tool == tool
        assert line.arguments == arguments
        # Nothing on the wire says how these went.
        assert line.told.status == ""


@pytest.mark.parametrize("share", SHARES)
def test_what_a_line_tells_stands_together_in_one_object_of_the_result(share: float) -> None:
    found = compressed(share)
    read = lines(found)

    told = [*(line.told for line in read.values()), *notes(found)]
    assert sum(len(one.records) for one in told) >= 3
    for number, line in read.items():
        assert not line.told.names
        assert_told_of(line.told, steps()[number - 1][2])


@pytest.mark.parametrize("share", SHARES)
def test_every_note_in_place_of_a_result_is_read(share: float) -> None:
    found = compressed(share)
    numbers = [one.number for one in found.decisions if one.kind == "note"]

    read = notes(found)

    assert len(read) == len(numbers)
    for number, told in zip(numbers, read, strict=True):
        assert told.status == ""
        assert_told_of(told, steps()[number - 1][2])


@pytest.mark.parametrize("share", SHARES)
def test_every_step_that_was_removed_is_counted_once(share: float) -> None:
    found = compressed(share)
    removed = [one for one in found.decisions if one.kind in ("line", "omitted")]

    marks = [
        mark
        for message in found.messages
        for mark in apart(text_of(message), result=message["role"] == "tool").marks
    ]

    assert sum(mark.steps for mark in marks) == len(removed)
    assert all(len(mark.lines) <= mark.steps for mark in marks)


@pytest.mark.parametrize("share", SHARES)
def test_no_word_that_was_told_is_passed_over(share: float) -> None:
    for line in lines(compressed(share)).values():
        told = line.told
        values = [value for record in told.records for own in record.values() for value in own]
        keys = [key for record in told.records for key in record]
        rest = told.text.removesuffix(f"+{told.more}").replace("address.", "").replace("at.", "")
        for word in sorted([*keys, *values], key=len, reverse=True):
            rest = rest.replace(word, "", 1) if word not in keys else rest.replace(word, "")
        assert not set(rest) - set('=;, ".'), (line, rest)


def test_what_a_tool_said_itself_is_no_note() -> None:
    for move in played().moves:
        if move.called:
            assert note(move.observation) is None
            assert apart(move.observation, result=True).own == move.observation


@given(st.text(max_size=200), st.booleans())
def test_any_text_can_be_read(text: str, result: bool) -> None:
    apart(text, result=result)
    note(text)
    read_line(text)
    read_told(text)


def test_names_of_lists_and_rows_are_parted_and_amounts_are_not() -> None:
    assert read_told("car_makers,car_names").names == ("car_makers", "car_names")
    assert read_told("Id|int,Model|text; +3").names == ("Id", "int", "Model", "text")
    assert read_told("ok W7148 $1,299.50").names == ("W7148", "$1,299.50")
