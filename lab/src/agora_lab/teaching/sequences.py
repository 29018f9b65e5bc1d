"""A lesson as token ids: one sequence in which each turn is read once.

Where the reader would have said something else than the conversation went on with, its words
stand at the end of the sequence as a branch. A branch sees the conversation up to its turn and
itself, and has the positions that follow there: it costs its own tokens, not a second reading.
"""

from collections.abc import Iterator, Sequence
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


def packed(prompts: Sequence[TokenSequence], most_tokens: int) -> Iterator[TokenSequence]:
    """Yield prompts of one episode in as few sequences of at most `most_tokens` as fit in order."""
    some: list[TokenSequence] = []
    for one in prompts:
        if some and len(together([*some, one]).token_ids) > most_tokens:
            yield together(some)
            some = []
        some.append(one)
    if some:
        yield together(some)


def together(prompts: Sequence[TokenSequence]) -> TokenSequence:
    """Return sequences without branches as one that reads their common beginning once.

    Each of them goes on as a branch. What is predicted in the common beginning is predicted
    once for each.
    """
    shared = min(len(one.token_ids) for one in prompts)
    for one in prompts[1:]:
        pairs = zip(one.token_ids, prompts[0].token_ids, strict=False)
        alike = next((at for at, (a, b) in enumerate(pairs) if a != b), shared)
        shared = min(shared, alike)
    ids = list(prompts[0].token_ids[:shared])
    positions = list(range(shared))
    branches = []
    predicts: list[int] = []
    labels: list[int] = []
    for one in prompts:
        start = len(ids)
        predicts += [at if at < shared else at - shared + start for at in one.predicts]
        labels += one.labels
        ids += one.token_ids[shared:]
        positions += one.positions[shared:]
        branches.append(Branch(start=start, end=len(ids), after=shared))
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
