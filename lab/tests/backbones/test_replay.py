import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_lab.backbones.base import Answer, Messages
from agora_lab.backbones.replay import Recorder, Replay, messages_key
from agora_lab.backbones.retries import BackboneError


class CountingWords:
    """A backbone that works: it counts."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, messages: Messages) -> Answer:
        self.asked += 1
        words = sum(len(str(message["content"]).split()) for message in messages)
        return Answer(text=f"look {self.asked}", input_tokens=words, output_tokens=2)


def prompt(*contents: str) -> Messages:
    return [{"role": "user", "content": content} for content in contents]


def test_what_was_recorded_is_answered_the_same(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    recorder = Recorder(CountingWords(), file)
    recorded = [recorder.answer(prompt("find", "it" * n)) for n in range(3)]

    replay = Replay(file)

    assert [replay.answer(prompt("find", "it" * n)) for n in (0, 1, 2)] == recorded
    assert replay.answer(prompt("find", "it")) == recorded[1]


def test_the_first_of_two_recorded_answers_is_given_each_time(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    recorder = Recorder(CountingWords(), file)
    first, second = recorder.answer(prompt("find")), recorder.answer(prompt("find"))

    assert first != second
    assert Replay(file).answer(prompt("find")) == first
    assert Replay(file).answer(prompt("find")) == first


def test_what_was_not_recorded_is_told_by_its_end(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    Recorder(CountingWords(), file).answer(prompt("find"))

    with pytest.raises(BackboneError, match=r"1 recorded prompts but not this one.*the blue door'"):
        Replay(file).answer(prompt("find the blue door"))


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "{}", '{"messages": [], "answer": {"words": 1}}'],
)
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "answers.jsonl"
    Recorder(CountingWords(), file).answer(prompt("find"))
    file.write_text(file.read_text() + line + "\n")

    with pytest.raises(BackboneError, match=r"answers\.jsonl:2 is not a recorded answer"):
        Replay(file)


def test_messages_that_were_changed_by_hand_are_found_out(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    Recorder(CountingWords(), file).answer(prompt("find"))
    line = json.loads(file.read_text())
    line["messages"] = [{"role": "user", "content": "lose"}]
    file.write_text(json.dumps(line))

    with pytest.raises(BackboneError, match="do not match its key"):
        Replay(file)


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match=r"none\.jsonl cannot be read"):
        Replay(tmp_path / "none.jsonl")


@given(st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_only_the_same_messages_have_the_same_key(one: list[str], other: list[str]) -> None:
    assert (messages_key(prompt(*one)) == messages_key(prompt(*other))) == (one == other)
