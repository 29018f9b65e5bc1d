"""A lesson as token ids: one sequence in which each turn is read once.

Where the reader would have said something else than the conversation went on with, its words
stand at the end of the sequence as a branch. A branch sees the conversation up to its turn and
itself, and has the positions that follow there: it costs its own tokens, not a second reading.
"""

from dataclasses import dataclass
from typing import Protocol

from agora_lab.teaching.lessons import Lesson

START, END = "<|im_start|>", "<|im_end|>"
ACTOR = f"{START}assistant\n"
"""Where an answer begins."""


class Encoder(Protocol):
    """What turns text into token ids, reading special tokens as such."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return the ids of a text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Tokens at the end of a sequence that continue it from an earlier place."""

    start: int
    end: int
    after: int
    """How many tokens of the conversation it sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSequence:
    """What a model reads of a lesson, and what it should predict."""

    token_ids: tuple[int, ...]
    positions: tuple[int, ...]
    branches: tuple[Branch, ...]
    predicts: tuple[int, ...]
    """The places whose next token is to be learnt."""
    labels: tuple[int, ...]
    """That token, for each of these places."""


def sequence(lesson: Lesson, encoder: Encoder) -> TokenSequence:
    """Return a lesson as one sequence."""
    wanted = {target.at: target.text for target in lesson.targets}
    said = dict(enumerate(lesson.messages))
    ids: list[int] = []
    predicts: list[int] = []
    labels: list[int] = []
    apart: list[tuple[int, list[int]]] = []
    for at in range(max(len(said), *(one + 1 for one in wanted))):
        message = said.get(at)
        if at not in wanted:
            ids += _ids(encoder, turn(message.role, message.content)) if message else []
            continue
        ids += _ids(encoder, ACTOR)
        target = _ids(encoder, wanted[at] + END)
        goes_on = message is not None and message.role == "assistant"
        if message is not None and goes_on and message.content != wanted[at]:
            apart.append((len(ids), target))
            ids += _ids(encoder, message.content + END)
        else:
            predicts += range(len(ids) - 1, len(ids) + len(target) - 1)
            labels += target
            ids += target
        ids += _ids(encoder, "\n")
    positions = list(range(len(ids)))
    branches = []
    for after, target in apart:
        # The last token of a branch is only predicted.
        start, end = len(ids), len(ids) + len(target) - 1
        predicts += [after - 1, *range(start, end)]
        labels += target
        ids += target[:-1]
        positions += range(after, after + len(target) - 1)
        branches.append(Branch(start=start, end=end, after=after))
    return TokenSequence(
        token_ids=tuple(ids),
        positions=tuple(positions),
        branches=tuple(branches),
        predicts=tuple(predicts),
        labels=tuple(labels),
    )


def turn(role: str, content: str) -> str:
    """Return a message as lessons and prompts write it."""
    return f"{START}{role}\n{content}{END}\n"


def _ids(encoder: Encoder, text: str) -> list[int]:
    return encoder.encode(text, add_special_tokens=False)
