"""The paper's method, and its ablations, from `agora.paper`."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from agora import Query, Scorer, Step
from agora.paper import Atom, PaperCompressor
from agora_lab.methods.agora import loaded
from agora_lab.methods.base import Messages, MethodSettings, Shortened, SkipMethod

RANDOM = "random"
_THETA_HI = 0.9


@dataclass(frozen=True, slots=True)
class RandomScorer:
    """Random scores: the baseline for any scorer.

    They are derived from the step's text and the seed, so a step keeps its score from one call to
    the next, in every run and on every machine. They stay below the paper's `theta_hi`, above
    which a step would join the floor.
    """

    seed: int = 0

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:  # noqa: ARG002
        """Return numbers spread evenly over [0, 0.9)."""
        return [_THETA_HI * self._drawn(step) for step in steps]

    def _drawn(self, step: Step) -> float:
        text = f"{self.seed}\n{step.number}\n{step.action}\n{step.observation}"
        drawn = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest()
        return int.from_bytes(drawn) / (1 << 48)


@dataclass(frozen=True, slots=True)
class TrainedScorer:
    """A trained scorer that remembers its scores.

    The same pairs come again: when an agent repeats itself, and when methods are compared on the
    same prompts. A score depends on its pair alone.
    """

    scorer: Scorer
    known: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        """Return one probability per step."""
        pairs = [(query.observation, step.action, step.observation) for step in steps]
        new = {
            pair: step for pair, step in zip(pairs, steps, strict=True) if pair not in self.known
        }
        scores = self.scorer.score(query, list(new.values()))
        self.known.update(zip(new, scores, strict=True))
        return [self.known[pair] for pair in pairs]


@cache
def _trained(folder: str) -> Scorer:
    """Load a folder once in a process, for all methods and environments."""
    return TrainedScorer(loaded(folder))


class AgoraPaper:
    """Shortens by the paper's method: characters, every call, whole steps."""

    def __init__(
        self,
        settings: MethodSettings,
        *,
        scorer: Scorer | str | None = None,
        atom: Callable[[Step], Atom] | None = None,
        k_recent: int = 2,
        theta_hi: float = _THETA_HI,
        hard: bool = False,
    ) -> None:
        """Load the scorer.

        Args:
            settings: Its `keep_ratio` is rho.
            scorer: An object, a bundle's folder, or `random`; default the settings' own.
            atom: Turns a step into the text that is scored; default the settings' own.
            k_recent: Steps of the floor; 0 for the ablation -Floor.
            theta_hi: Scores above it join the floor.
            hard: True for the ablation Hard-CF, whose scorer only its own option names.

        Raises:
            SkipMethod: There is no scorer.
        """
        chosen = scorer or (None if hard else settings.scorer)
        if chosen is None:
            kind = "trained on hard labels" if hard else "trained by `agora train`"
            raise SkipMethod(f"weights absent: name the folder of a scorer {kind} as scorer=FOLDER")
        self._compressor = PaperCompressor(
            _made(chosen, settings.seed),
            atom or settings.atom,
            rho=settings.keep_ratio,
            k_recent=k_recent,
            theta_hi=theta_hi,
            strict=True,
        )
        self._observations = settings.observations

    def shorten(self, messages: Messages) -> Shortened:
        """Return the compressed messages."""
        compression = self._compressor.compress(
            messages, format="openai", observations=self._observations
        )
        detail = "" if compression.changed else compression.summary()
        return Shortened(
            messages=compression.messages if compression.changed else messages, detail=detail
        )


def _made(chosen: Scorer | str, seed: int) -> Scorer:
    if chosen == RANDOM:
        return RandomScorer(seed)
    if isinstance(chosen, str) and Path(chosen).is_dir():
        return _trained(chosen)
    scorer: Scorer = loaded(chosen)
    return scorer
