"""Lessons: prompts in a student's format, each with what the reader does there."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from agora.errors import AgoraError
from agora_lab.journal import read_lines

SCHEMA = 1


class LessonError(AgoraError):
    """Lessons that cannot be made or used."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message of a lesson."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the reader says after the first `at` messages of a lesson."""

    at: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One conversation, and what the reader would say at some of its turns.

    Where the conversation went on with something else, as when a student played it, the target
    is still the reader's.
    """

    episode: str
    """The key of the episode it comes from."""
    step: int | None = None
    """Which step of it, where the lesson is a single prompt."""
    world: str
    split: str
    kind: str
    """`reader` for its own episodes, `straight` for those without detours, `student` for a
    student's, or the method that shortened."""
    messages: tuple[Said, ...]
    targets: tuple[Target, ...]

    def to_json(self) -> str:
        """Return the record as one line."""
        return json.dumps(
            {"schema": SCHEMA, **asdict(self)}, ensure_ascii=False, separators=(",", ":")
        )

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return the lesson in a line."""
        found = json.loads(line)
        if found.pop("schema", None) != SCHEMA:
            raise ValueError(f"not a lesson of schema {SCHEMA}")
        found["messages"] = tuple(Said(**one) for one in found["messages"])
        found["targets"] = tuple(Target(**one) for one in found["targets"])
        return cls(**found)


def read_lessons(files: Iterable[Path], *, split: str) -> Iterator[Lesson]:
    """Yield the lessons of files.

    Raises:
        LessonError: a line is no lesson, or one of another split.
    """
    for file in files:
        for number, line in enumerate(read_lines(file), start=1):
            try:
                lesson = Lesson.from_json(line)
            except (ValueError, TypeError, KeyError) as error:
                raise LessonError(f"{file}:{number}", f"is no lesson: {error}") from error
            if lesson.split != split:
                raise LessonError(
                    f"{file}:{number}",
                    f"is of the split {lesson.split!r}, not {split!r}; make lessons of a run of "
                    f"`agora lab play --split {split}`",
                )
            yield lesson
