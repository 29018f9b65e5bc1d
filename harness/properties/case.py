"""A drawn history together with how it is compressed: what every property is checked on."""

import pickle
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import agora
from agora import Budget, Compression, Compressor, Scorer
from agora.scorers import BM25Scorer, RecencyScorer
from agora.testing import FailingScorer, FixedScorer
from harness.histories import History, RandomScorer, edit_after
from harness.histories.choices import Choices

SETUP_BYTES = 24
"""As many choices as a setup needs."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setup:
    """How a case is compressed."""

    compressor: Compressor
    pins: frozenset[int]
    every: int = 1
    """Edits are made after each so many steps; 1: at every call."""

    def compress(self, history: History, messages: Any = None) -> Compression:
        messages = history.messages if messages is None else messages
        state = None if self.every == 1 else edit_after(self.last_edit(history, messages))
        return self.compressor.compress(messages, pins=self.pins, state=state, **history.request)

    def last_edit(self, history: History, messages: Any) -> int:
        """Return after how many steps the last edit of a prompt was made."""
        try:
            steps = len(
                agora.parse(
                    messages,
                    format=history.format,
                    observations=history.observations,
                    **history.options,
                ).steps
            )
        except Exception:
            # What cannot be read is not edited.
            return 0
        return steps - steps % self.every


class Case:
    """A history and the setups it is compressed with.

    What several properties look at is worked out once. That two compressions of equal messages
    are equal is a property of its own.
    """

    def __init__(self, history: History, tape: bytes) -> None:
        self.history = history
        self.setup = make_setup(tape)
        self.epochs = make_setup(tape, epochs=True)
        """The same, but not edited at every call."""

    @cached_property
    def compression(self) -> Compression:
        """The history, compressed."""
        assert self.before is not None  # A copy from before it is compressed.
        return self.setup.compress(self.history)

    @cached_property
    def before(self) -> Any:
        """The messages as they were before anything was done with them."""
        return clone(self.history.messages)

    @property
    def shortened(self) -> bool:
        """Whether something was elided, as far as the history could be compressed at all."""
        found = self.__dict__.get("compression")
        return isinstance(found, Compression) and found.changed

    @cached_property
    def tokens_before(self) -> int:
        """What the history takes, counted again."""
        return self.tokens_of(self.history.messages)

    @cached_property
    def tokens_after(self) -> int:
        """What is sent in its place, counted again."""
        return self.tokens_of(self.compression.messages)

    def tokens_of(self, messages: Any) -> int:
        """Count messages again, as a call with nothing else to do would."""
        return agora.parse(
            messages,
            format=self.history.format,
            observations=self.history.observations,
            counter=self.setup.compressor.counting,
            **self.history.options,
        ).tokens


def clone(value: T) -> T:
    """Return a deep copy; by pickle, which is several times as fast as `copy.deepcopy`."""
    copied: T = pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    return copied


def make_setup(tape: bytes, *, epochs: bool = False) -> Setup:
    """Return the case of a tape of choices; with `epochs` not every call is an edit."""
    choices = Choices(tape)
    every = choices.pick((2, 3, 4, 2) if epochs else (1, 1, 1, 2))
    pins = frozenset(1 + choices.below(8) for _ in range(choices.pick((0, 0, 1, 3))))
    k_recent = choices.pick((2, 0, 1, 3, 4))
    scorer = _scorer(choices)
    compressor = Compressor(
        scorer=scorer,
        budget=_budget(choices),
        k_recent=k_recent,
        edits="every_call" if every == 1 else "never",
    )
    return Setup(compressor, pins, every)


def fields_of(compressor: Compressor) -> dict[str, Any]:
    """Return the settings of a compressor by name."""
    made_with = (one.name for one in fields(Compressor) if one.init)
    return {name: getattr(compressor, name) for name in made_with}


def _scorer(choices: Choices) -> Scorer:
    how = choices.below(8)
    if how == 0:
        return RecencyScorer()
    if how == 1:
        return BM25Scorer()
    if how == 2:
        return FailingScorer(RuntimeError("no weights"))
    if how == 3:
        return FixedScorer(tuple(choices.below(11) / 10 for _ in range(8)))
    return RandomScorer(choices.below(256))


def _budget(choices: Choices) -> Budget:
    how = choices.below(8)
    if how == 0:
        return Budget()
    if how < 3:
        return Budget(limit=0)
    if how < 5:
        return Budget(limit=choices.below(256) * 8)
    if how == 5:
        return Budget(limit=choices.below(256) * 32, unit="characters")
    return Budget(keep_ratio=choices.below(17) / 16)
