"""Hypothesis strategies for legal histories in each wire format."""

from functools import partial

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agora.formats import known_format
from harness.histories.choices import TAPE_BYTES
from harness.histories.history import MAX_STEPS, History, Recipe, build

_TAPES = st.binary(min_size=TAPE_BYTES, max_size=TAPE_BYTES)
_TEXTS = st.text(max_size=24)


def histories(
    format: str,
    *,
    max_steps: int = MAX_STEPS,
) -> SearchStrategy[History]:
    """Return a strategy for legal histories of a format, with at most `max_steps` steps.

    They hold what agents really send: parallel calls, results out of order and
    late, thinking and sealed reasoning, images, cache breakpoints, calls the
    provider answers itself, user text between steps, text in any script, and
    text that looks like a marker, a role or a special token. More than half of
    them have something to elide.

    One is drawn in one piece, from a tape of bytes, so it costs a fraction of a
    millisecond; see `harness.histories.history`.
    """
    return st.builds(partial(_build, known_format(format), max_steps), _TAPES, _TEXTS)


def _build(name: str, max_steps: int, tape: bytes, text: str) -> History:
    return build(Recipe(format=name, tape=tape, text=text, max_steps=max_steps))
