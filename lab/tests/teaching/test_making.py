import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from lab.tests.evaluation.counting import WORLD, KeepAll, KeepNewest, make_player

from agora_lab.backbones import Answer, Messages, content_text, readers
from agora_lab.cli.lab import lab
from agora_lab.environments import world
from agora_lab.episodes.episode import Cell, Episode
from agora_lab.episodes.run import read_episodes
from agora_lab.evaluation.episode_player import Player
from agora_lab.methods import MethodSettings, method
from agora_lab.teaching.lessons import Lesson, LessonError, Said, Target, read_lessons
from agora_lab.teaching.making import Lot, Teacher


class Namer:
    """A teacher that says which prompt it was asked about."""

    def answer(self, messages: Messages) -> Answer:
        return Answer(text=f"after {content_text(messages[-1]['content'])}, {len(messages)} said")


def counted(task: str, *, shorten: Any) -> Episode:
    player = replace(make_player(), method=shorten)
    return player.play(task)[0]


def at_the_desk(task: str, steps: int) -> Episode:
    chosen = world("desk")
    environment = chosen.make()
    try:
        player = Player(
            cell=Cell(environment="desk", backbone="reader", method="none"),
            world=chosen,
            environment=environment,
            backbone=readers.reader("desk"),
            method=method("none", MethodSettings()),
            most_steps=steps,
        )
        return player.play(task)[0]
    finally:
        environment.close()


def test_lessons_of_the_readers_own_episode_are_what_it_did_at_every_step() -> None:
    episode = at_the_desk(world("desk").splits()["train"][0], 12)
    teacher = Teacher(
        world=world("desk"), reader=readers.reader("desk"), split="train", by_reader=True
    )

    (lesson,) = teacher.lessons(episode)

    assert [one.text for one in lesson.targets] == [move.answer for move in episode.moves]
    # What the conversation went on with is what the reader said, so that it is read once.
    assert [lesson.messages[one.at].content for one in lesson.targets] == [
        one.text for one in lesson.targets
    ]
    assert lesson.messages[0] == Said(role="system", content="desk")
    assert {one.role for one in lesson.messages} == {"system", "user", "assistant"}
    assert lesson.messages[-1].role == "assistant"


def test_a_student_is_told_what_the_teacher_would_have_done_in_its_place() -> None:
    episode = counted("3", shorten=KeepAll())
    teacher = Teacher(world=WORLD, reader=Namer(), split="train", by_reader=False)

    (lesson,) = teacher.lessons(episode)

    assert lesson.kind == "student"
    assert [(one.at, one.text) for one in lesson.targets] == [
        (2, "after count to 3\n\n0, 2 said"),
        (4, "after 1, 4 said"),
        (6, "after 2, 6 said"),
    ]
    assert lesson.messages[2] == Said(role="assistant", content="one more")


def test_nothing_is_asked_after_an_action_that_the_world_did_not_understand() -> None:
    episode = counted("4", shorten=KeepAll())
    first, second, *others = episode.moves
    misled = replace(episode, moves=(first, replace(second, valid=False), *others))
    student = Teacher(world=WORLD, reader=Namer(), split="train", by_reader=False)

    (lesson,) = student.lessons(misled)
    (own,) = replace(student, by_reader=True).lessons(misled)

    assert [one.at for one in lesson.targets] == [2, 4]
    assert len(lesson.messages) == 5
    assert [one.at for one in own.targets] == [2, 4, 6, 8]


def test_prompts_that_were_shortened_in_play_are_lessons_of_their_own() -> None:
    episode = counted("3", shorten=KeepNewest())
    teacher = Teacher(world=WORLD, reader=Namer(), split="train", by_reader=False)

    whole, *apart = sorted(teacher.lessons(episode), key=lambda one: one.step or 0)

    assert [one.at for one in whole.targets] == [2]
    assert [(one.step, one.targets) for one in apart] == [
        (1, (Target(at=2, text="after 1, 2 said"),)),
        (2, (Target(at=2, text="after 2, 2 said"),)),
    ]
    assert all(len(one.messages) == 2 for one in apart)


def test_compressed_lessons_have_the_readers_answer_to_the_compressed_prompt() -> None:
    episode = at_the_desk(world("desk").splits()["train"][1], 14)
    reader = readers.reader("desk")
    methods = {
        name: method(name, MethodSettings(keep_ratio=0.25, observations="none"))
        for name in ("floor_matched", "agora_forms_worth")
    }
    lot = Lot(methods=methods, share=0.6, seed=3)
    teacher = Teacher(world=world("desk"), reader=reader, split="train", by_reader=True, lot=lot)

    lessons = list(teacher.lessons(episode))

    assert lessons == list(teacher.lessons(episode))
    assert {one.kind for one in lessons} == set(methods)
    shorter = 0
    for one in lessons:
        assert one.step is not None
        whole = episode.conversation(one.step)
        sent: Sequence[Mapping[str, Any]] = methods[one.kind].shorten(whole).messages
        assert one.targets == (Target(at=len(sent), text=reader.answer(sent).text),)
        assert len(one.messages) == len(sent)
        shorter += list(sent) != whole
    assert shorter


def test_a_lesson_is_read_as_it_was_written() -> None:
    lesson = Lesson(
        episode="e",
        step=2,
        world="w",
        split="train",
        kind="reader",
        messages=(Said(role="user", content="naïve\nline"),),
        targets=(Target(at=1, text="go"),),
    )

    assert Lesson.from_json(lesson.to_json()) == lesson


def test_lessons_of_another_split_are_refused(tmp_path: Path) -> None:
    lesson = Lesson(episode="e", world="w", split="test", kind="reader", messages=(), targets=())
    file = tmp_path / "lessons.jsonl"
    file.write_text(lesson.to_json() + "\n", encoding="utf-8")

    with pytest.raises(LessonError, match=r"lessons.jsonl:1 is of the split 'test', not 'train'"):
        list(read_lessons([file], split="train"))


def test_the_command_adds_only_the_lessons_of_episodes_it_has_not_seen(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "lessons.jsonl"

    def said(*arguments: object) -> str:
        done = CliRunner().invoke(lab, [str(one) for one in arguments])
        assert done.exit_code == 0, done.output
        return done.output

    said("play", "--env", "desk", "--split", "train", "--tasks", 2, "--steps", 5, "--out", run)
    assert "2 lessons added" in said("teach", "lessons", run, "--out", out)
    assert "0 lessons added" in said("teach", "lessons", run, "--out", out)

    lessons = list(read_lessons([out], split="train"))
    assert [one.episode for one in lessons] == [one.key for one in read_episodes(run)]
    assert all(json.loads(line)["kind"] == "reader" for line in out.open())
