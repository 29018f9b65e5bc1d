"""Sentences that deny something: a name out of one, told alone, would say the opposite."""

import re

from agora.core.reading.vocabulary import word_list

_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n")


def _word(word: str) -> str:
    # Scripts without spaces have no boundaries of words.
    return re.escape(word) if not word[0].isascii() and _UNSPACED.match(word) else rf"\b{word}\b"


_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_DENIES = re.compile(
    "|".join([*map(_word, word_list("sentences", "denials")), r"n['’]t\b"]), re.IGNORECASE
)


def denies(text: str) -> bool:
    """Tell whether a text has a word of denial.

    >>> denies("Not in the fridge: apple"), denies("il n'y a pas de pomme"), denies("没有苹果")
    (True, True, True)
    """
    return _DENIES.search(text) is not None


def affirmed(text: str) -> str:
    """Return a text without the sentences that deny something.

    >>> affirmed("HAT136 is full. HAT137 is not cancelled. HAT138 leaves at 9.")
    'HAT136 is full.\\nHAT138 leaves at 9.'
    """
    if not denies(text):
        return text
    return "\n".join([one for one in _SENTENCE_END.split(text) if not denies(one)])
