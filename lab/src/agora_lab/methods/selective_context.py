"""Selective Context: removes words that a language model could have guessed."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, Protocol

from agora.core.memo import Memo
from agora.core.tokens import TokenCounter
from agora_lab.chats import COUNTER, append, read, text_of, with_text
from agora_lab.methods.base import Messages, Shortened, SkipMethod

Level = Literal["phrase", "word", "token", "sentence"]
Split = Callable[[str], Sequence[str]]

_SENTENCE_END = re.compile(r"(?<=[.?!]) ")
_WORD = re.compile(r" ?(?:\w+|[^\w ])")
_NEARBY = 16
_REMEMBERED_CHARACTERS = 20_000_000


class SelfInformation(Protocol):
    """A causal language model that measures how surprising each token of a text is."""

    def bits(self, text: str) -> Sequence[tuple[str, float]]:
        """Return the tokens of `text` in order, each with its self-information in bits.

        The first token is scored against the beginning of a text. Joined, the tokens
        give the text; where a model's do not, they are matched as well as possible.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a text that is kept or removed, and its mean self-information."""

    text: str
    bits: float


@dataclass(slots=True)
class SelectiveContext:
    """Removes the least surprising units from everything before the pending observation.

    After Li et al. (2023) and their released code: white space is collapsed,
    each sentence is scored by itself, a unit has the mean self-information of its
    tokens, and units below a threshold are removed. Their threshold is a percentile
    of the units; here it is chosen so that the prompt meets the budget of
    `keep_ratio` and can be compared with others.

    Their default unit is the phrase: a noun phrase or a word, found with
    spaCy's English model, which has to be installed (`en_core_web_sm`); without
    it that level is skipped. `word` is a phrase without the noun phrases: ours,
    not theirs. `token` and `sentence` are theirs and need no parser.

    Instructions, task and pending observation are kept whole. The published method
    has no notion of messages: with the form `text`, the past is one text after the
    task, as it would be there. With `chat`, which is more favourable, each message
    keeps its role, and a step with no words left is removed.
    """

    source: SelfInformation
    level: Level = "phrase"
    keep_ratio: float = 0.25
    form: Literal["chat", "text"] = "chat"
    counter: TokenCounter = COUNTER
    _split: Split | None = field(init=False)
    _units_of: Memo[Sequence[Unit]] = field(init=False)

    def __post_init__(self) -> None:
        self._split = _splitter(self.level)
        self._units_of = Memo(self._scored, _REMEMBERED_CHARACTERS)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with past ones filtered."""
        chat = read(messages, self.counter)
        rate = chat.rate(self.keep_ratio, self.counter)
        if rate >= 1:
            return Shortened(messages=messages, detail="there is nothing that has to go")
        if self.form == "text":
            blocks = [f"[{str(m.get('role')).upper()}]\n{text_of(m)}" for m in chat.past]
            (text,) = self._filtered(["\n\n".join(blocks)], rate)
            shortened = list(chat.preamble)
            append(shortened, "\n\n".join([text, *map(text_of, chat.pending)]))
            return Shortened(messages=shortened)
        texts = iter(self._filtered([text_of(message) for message in chat.past], rate))
        shortened = list(chat.preamble)
        newest = len(chat.steps)
        for step in chat.steps:
            pending = chat.pending if step.number == newest else ()
            past = step.messages[: len(step.messages) - len(pending)]
            kept = [with_text(message, next(texts)) for message in past]
            if pending or any(map(text_of, kept)):
                shortened += [*kept, *pending]
        return Shortened(messages=shortened)

    def _filtered(self, texts: Sequence[str], rate: float) -> list[str]:
        """Return the texts without their least surprising units: `rate` of their tokens."""
        units = [
            [unit for sentence in _sentences(text) for unit in self._units_of(sentence)]
            for text in texts
        ]
        room = int(rate * sum(map(self.counter.count, texts)))
        bars = [*sorted({unit.bits for of_one in units for unit in of_one}), float("inf")]

        def above(bar: float) -> list[str]:
            return [_joined(unit for unit in of_one if unit.bits >= bar) for of_one in units]

        def fits(bar: float) -> bool:
            return sum(map(self.counter.count, above(bar))) <= room

        return above(bars[bisect_left(bars, True, key=fits)])

    def _scored(self, sentence: str) -> Sequence[Unit]:
        tokens = self.source.bits(sentence)
        if self._split is None:
            bits = [b for _, b in tokens]
            if self.level == "sentence":
                return (Unit(sentence, sum(bits) / len(bits) if bits else 0.0),)
            return tuple(Unit(text, b) for text, b in _located(sentence, tokens))
        return _averaged(self._split(sentence), _located(sentence, tokens))


def _sentences(text: str) -> Iterator[str]:
    """Yield sentences, all but the first with the space before them."""
    for at, sentence in enumerate(_SENTENCE_END.split(" ".join(text.split()))):
        if sentence:
            yield f" {sentence}" if at else sentence


def _joined(units: Iterator[Unit]) -> str:
    return "".join(unit.text for unit in units).strip()


def _located(sentence: str, tokens: Sequence[tuple[str, float]]) -> Sequence[tuple[str, float]]:
    """Return the tokens as pieces that make up the sentence, whatever a model calls them.

    A token that is not found where expected (bytes of one character, a special mark)
    is assumed to have no text; skipped text goes to the token before.
    """
    ends: list[int] = []
    at = 0
    for text, _ in tokens:
        found = sentence.find(text, at, at + len(text) + _NEARBY) if text else -1
        at = found + len(text) if found >= 0 else at
        ends.append(at)
    if ends:
        ends[-1] = len(sentence)
    starts = [0, *ends[:-1]]
    return [
        (sentence[start:end], bits)
        for start, end, (_, bits) in zip(starts, ends, tokens, strict=True)
        if end > start
    ]


def _averaged(pieces: Sequence[str], tokens: Sequence[tuple[str, float]]) -> Sequence[Unit]:
    """Return the pieces as units, each with the mean over the tokens that overlap it."""
    ends = list(accumulate(len(text) for text, _ in tokens))
    units = []
    at = 0
    for piece in pieces:
        first = bisect_left(ends, at + 1)
        at += len(piece)
        last = bisect_left(ends, at)
        inside = [bits for _, bits in tokens[first : last + 1]]
        units.append(Unit(piece, sum(inside) / len(inside) if inside else 0.0))
    return tuple(units)


def _splitter(level: Level) -> Split | None:
    if level == "word":
        return _words
    return _phrases() if level == "phrase" else None


def _words(sentence: str) -> Sequence[str]:
    return _WORD.findall(sentence)


def _phrases() -> Split:
    try:
        import spacy

        parser = spacy.load("en_core_web_sm", disable=["ner"])
    except (ImportError, OSError) as error:
        raise SkipMethod(
            "phrases need spaCy and its English model en_core_web_sm, which is not installed; "
            "the levels word, token and sentence need neither"
        ) from error
    parser.add_pipe("merge_noun_chunks")

    def split(sentence: str) -> Sequence[str]:
        found = list(parser(sentence))
        before = ["", *(token.whitespace_ for token in found)]
        return [space + token.text for space, token in zip(before, found, strict=False)]

    return split
