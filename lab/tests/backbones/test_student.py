from pathlib import Path

import pytest
from lab.tests.evaluation.counting import WORLD

from agora_lab.backbones import Answer, Messages
from agora_lab.backbones.student import Student, StudentFormat
from agora_lab.episodes.episode import Cell
from agora_lab.evaluation.grid import BackboneEntry
from agora_lab.evaluation.grid_player import make_backbone


class Heard:
    """Answers with what it was shown."""

    def answer(self, messages: Messages) -> Answer:
        return Answer(text="|".join(f"{one['role']}:{one['content']}" for one in messages))


def test_a_student_is_told_the_worlds_name_and_what_a_method_added() -> None:
    student = Student(Heard(), StudentFormat("counting", "Say: one more"))

    said = student.answer(
        [
            {"role": "system", "content": "Say: one more\n\n[steps 1-2 elided]"},
            {"role": "user", "content": [{"type": "text", "text": "3"}]},
        ]
    )

    assert said.text == "system:counting\n\n[steps 1-2 elided]|user:3"


def test_calls_and_results_are_written_as_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "act", "arguments": '{"a": 1}'}}

    said = StudentFormat("desk", "").said(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "ok"},
        ]
    )

    assert said == [
        {"role": "assistant", "content": 'act {"a": 1}'},
        {"role": "user", "content": "ok"},
    ]


def test_a_student_that_cannot_be_held_to_a_grammar_says_so() -> None:
    with pytest.raises(TypeError, match="Heard cannot be restricted to a grammar"):
        Student(Heard(), StudentFormat("counting", "")).choose([], 'root ::= "one more"')


def test_a_grids_student_behind_a_server_is_shown_no_examples(tmp_path: Path) -> None:
    entry = BackboneEntry(name="s", url="http://127.0.0.1:9/v1", student=True)
    cell = Cell(environment="counting", backbone="s", method="none")

    made = make_backbone(entry, cell, WORLD, tmp_path)

    assert isinstance(made, Student)
    assert made.format == StudentFormat("counting", WORLD.instructions)
