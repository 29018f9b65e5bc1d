"""The anchors of a source, in the order in which they are measured."""

from collections.abc import Collection, Sequence
from pathlib import Path

from agora_lab.fidelity.anchors import Anchor, anchors_of, half_of
from agora_lab.fidelity.rendering import Rendering
from agora_lab.fidelity.run import order
from agora_lab.fidelity.sources import SOURCES, recorded

_LONG_CHARACTERS = 40_000


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
    drawn = [
        anchor
        for one in recorded(SOURCES[name], played=played)
        if half_of(name, one.group) == half
        for anchor in anchors_of(one)
        if allowed is None or anchor.key in allowed
    ]
    return order(drawn, lambda one: _tokens(rendering, one), sizes, seed=seed)


def _tokens(rendering: Rendering, anchor: Anchor) -> int:
    text = rendering.prompt(anchor.messages, anchor.recorded.tools)
    # Tokenising the longest prompts takes longer than all the rest, and they are left out anyway.
    return len(text) // 2 if len(text) > _LONG_CHARACTERS else len(rendering.token_ids(text))
