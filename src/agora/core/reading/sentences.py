"""Sentences that deny something: a name out of one, told alone, would say the opposite."""

import re

from agora.core.reading.vocabulary import word_list

_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n")
_BRACKETS = re.compile(r"\([^()\n]{0,400}\)")
_MOST_DEPTH = 2
_WORD = re.compile(r"[^\W\d_]+")
_UNSPACED = re.compile(r"[\u0900-\u0dff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_DENIALS = word_list("sentences", "denials")
_WORDS = frozenset(word for word in _DENIALS if not _UNSPACED.match(word))
_SIGNS = ("n't", "n’t", *[word for word in _DENIALS if _UNSPACED.match(word)])
"""What denies inside of words, and in scripts that have no spaces between them."""


def denies(text: str) -> bool:
    """Tell whether a text has a word of denial.

    >>> denies("Not in the fridge: apple"), denies("il n'y a pas de pomme"), denies("没有苹果")
    (True, True, True)
    """
    text = text.lower()
    return not _WORDS.isdisjoint(_WORD.findall(text)) or any(map(text.__contains__, _SIGNS))


def affirmed(text: str) -> str:
    r"""Return a text without the sentences that deny something.

    >>> affirmed("HAT136 is full. HAT137 is not cancelled. HAT138 leaves at 9.")
    'HAT136 is full.\nHAT138 leaves at 9.'
    """
    if not denies(text):
        return text
    # What is denied in brackets is denied of what stands before them: `a cup (with nothing in it)`.
    for _ in range(_MOST_DEPTH):
        text = _BRACKETS.sub(_unless_denied, text)
    return "\n".join([one for one in _SENTENCE_END.split(text) if not denies(one)])


def _unless_denied(found: re.Match[str]) -> str:
    return "" if denies(found[0]) else found[0]
