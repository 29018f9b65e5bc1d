"""The anchors of a source, in the order in which they are measured."""

from collections.abc import Collection, Sequence
from itertools import takewhile
from pathlib import Path

from agora_lab.chats import text_of
from agora_lab.judge.anchors import Anchor, anchors_of, half_of
from agora_lab.judge.rendering import Rendering
from agora_lab.judge.run import order
from agora_lab.judge.sources import SOURCES, recorded

_TOKEN_CHARACTERS = 5
"""More than a token has on average in any of the logs: what is longer is not looked at at all."""


def queue(
    name: str,
    half: str,
    rendering: Rendering,
    sizes: tuple[int, int],
    *,
    seed: int = 0,
    played: Path | None = None,
    allowed: Collection[str] | None = None,
) -> Sequence[Anchor]:
    """Return the anchors of one half of a source; `sizes` are those of `order`.

    Raises:
        ValueError: there is no source of that name.
    """
    if name not in SOURCES:
        raise ValueError(f"unknown source {name!r}; use one of {', '.join(SOURCES)}")
    longest = _TOKEN_CHARACTERS * sizes[1]
    drawn = [
        anchor
        for one in recorded(SOURCES[name], played=played)
        if half_of(name, one.group) == half
        for anchor in takewhile(lambda at: _characters(at) <= longest, anchors_of(one))
        if allowed is None or anchor.key in allowed
    ]
    return order(drawn, lambda one: _tokens(rendering, one), sizes, seed=seed)


def _characters(anchor: Anchor) -> int:
    return sum(len(text_of(message)) for message in anchor.messages)


def _tokens(rendering: Rendering, anchor: Anchor) -> int:
    return len(rendering.token_ids(rendering.prompt(anchor.messages, anchor.recorded.tools)))
