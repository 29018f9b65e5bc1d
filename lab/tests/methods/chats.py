"""Chats for the tests of methods."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

_WORDS = "go take open desk 1 drawer 2 mug 3 apple you see a the on in nothing . , ? 台灯".split()


def _spoken(number: int) -> str:
    """Return up to sixty words: one number per text is drawn faster than sixty words."""
    return " ".join(random.Random(number).choices(_WORDS, k=number % 61))


texts = st.integers(0, 1_000_000).map(_spoken)


@st.composite
def chats(draw: st.DrawFn, least: int = 0, most: int = 12) -> list[dict[str, Any]]:
    """Instructions, a task, then steps; the last message is what the agent has to act on."""
    chat = [
        {"role": "system", "content": "You act. " + draw(texts)},
        {"role": "user", "content": "Put a mug in the desk.\n\n" + draw(texts)},
    ]
    for number in range(draw(st.integers(least, most))):
        chat.append({"role": "assistant", "content": f"go to desk {number} " + draw(texts)})
        chat.append({"role": "user", "content": f"On desk {number} you see: " + draw(texts)})
    return chat


_contents = st.one_of(
    st.text(max_size=80),
    st.none(),
    st.lists(
        st.one_of(
            st.text(max_size=9),
            st.just({"type": "image_url"}),
            st.text(max_size=20).map(lambda text: {"type": "text", "text": text}),
            st.just({"type": "text", "text": None}),
        ),
        max_size=3,
    ),
)
garbled = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
        optional={"content": _contents},
    ),
    max_size=12,
)
"""What no agent sends: roles in any order, contents of any kind or none, lone surrogates."""


def _bits(piece: str) -> float:
    return float(hashlib.blake2b(piece.encode("utf-8", "surrogatepass")).digest()[0]) / 16


def contents(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(message.get("content")) for message in messages]
