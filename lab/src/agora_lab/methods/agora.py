"""AGORA itself, as one method among the others."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agora.compressor import Compressor
from agora.core.compression import Reason
from agora.core.request import Observations
from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora.errors import BundleError
from agora.paper import PaperCompressor
from agora.scorers import load_scorer
from agora_lab.methods.base import Messages, Shortened, SkipMethod

RANDOM = "random"
_OF_THE_BUDGET = ("min_ratio", "limit", "unit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agora:
    """Shortens with a compressor; observations are user messages.

    With the schedule by price, a small prompt may never be edited: below a provider's
    smallest cacheable prefix, or early in an episode, an edit does not pay off. The
    detail then gives the reason.
    """

    compressor: Compressor = field(default_factory=Compressor)
    model: str | None = None
    """The model assumed to answer, for its prices; without it, editing is assumed expensive."""
    observations: Observations | None = "user"
    """Which user messages are observations: all but the first for an agent that acts by text."""

    def shorten(self, messages: Messages) -> Shortened:
        """Return the compressed messages."""
        compression = self.compressor.compress(
            messages, format="openai", observations=self.observations, model=self.model
        )
        sent = compression.messages if compression.changed else messages
        detail = "" if compression.reason is Reason.COMPRESSED else compression.summary()
        return Shortened(messages=sent, detail=detail)


@dataclass(frozen=True, slots=True)
class ByLot:
    """A random scorer: the baseline for any score.

    Scores are derived from a step's text and the seed, so a step keeps its score from
    one call to the next, in every run and on every machine.
    """

    seed: int = 0

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:  # noqa: ARG002
        """Return numbers spread evenly over [0, 1)."""
        return [self._lot(step) for step in steps]

    def _lot(self, step: Step) -> float:
        text = f"{self.seed}\n{step.number}\n{step.action}\n{step.observation}"
        drawn = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest()
        return int.from_bytes(drawn) / (1 << 48)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """Shortens by the paper's method."""

    compressor: PaperCompressor
    observations: Observations | None = "user"

    def shorten(self, messages: Messages) -> Shortened:
        """Return the compressed messages."""
        compression = self.compressor.compress(
            messages, format="openai", observations=self.observations
        )
        detail = "" if compression.changed else compression.summary()
        return Shortened(messages=compression.messages, detail=detail)


def made(
    preset: str,
    *,
    keep_ratio: float,
    scorer: Scorer | str | None,
    model: str | None,
    seed: int,
    options: Mapping[str, Any],
) -> Agora | Paper:
    """Return AGORA with a preset (`paper`, `by_price`, `every_call`) and some changes.

    `options` are fields of the compressor, `min_ratio`, `limit` and `unit` of its budget,
    `share` (the share of the tokens outside the floor to keep, instead of `keep_ratio`), or
    `observations`.

    Raises:
        SkipMethod: its scorer is not available.
    """
    if preset == "paper":
        return _paper(scorer, keep_ratio, seed, options)
    compressor = Compressor(schedule="every_call" if preset == "every_call" else "by_price")
    own = dict(options)
    changed = {name: own.pop(name) for name in _OF_THE_BUDGET if name in own}
    observations = own.pop("observations", "user")
    share = own.pop("share", None)
    if share is not None:
        budget = replace(compressor.budget, keep_ratio=0.0, **{**changed, "min_ratio": share})
    elif "limit" in changed:
        budget = replace(compressor.budget, keep_ratio=None, **changed)
    else:
        budget = replace(compressor.budget, keep_ratio=keep_ratio, **changed)
    if scorer is not None:
        own["scorer"] = scorer_named(scorer, seed) if isinstance(scorer, str) else scorer
    return Agora(
        compressor=replace(compressor, budget=budget, **own),
        model=model,
        observations=observations,
    )


def _paper(
    scorer: Scorer | str | None, keep_ratio: float, seed: int, options: Mapping[str, Any]
) -> Paper:
    if scorer is None:
        raise SkipMethod(
            "weights absent: the paper's method needs the folder that `agora train` wrote"
        )
    own = {"rho": keep_ratio, **options}
    observations = own.pop("observations", "user")
    made_by = scorer_named(scorer, seed) if isinstance(scorer, str) else scorer
    return Paper(compressor=PaperCompressor(made_by, strict=True, **own), observations=observations)


def scorer_named(name: str, seed: int = 0) -> Scorer:
    """Return a scorer by its name in `load_scorer`, a bundle's folder, or `random`.

    Raises:
        SkipMethod: there is none.
    """
    if name == RANDOM:
        return ByLot(seed)
    try:
        return load_scorer(name)
    except BundleError as error:
        raise SkipMethod(str(error)) from error
