"""Steps scored by one vector each, computed once and remembered, compared with the newest step's.

An encoder reads each step by itself, so a trajectory that comes back with one
step more costs one pass, however long it is. A step gets what the `features`
tables add up to, and the product of its vector with one that the newest step's
makes. What the user said last is read by the features only: its vector did not
help (docs/log.md).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agora.core.trajectory import Anchor, Call, Step
from agora.errors import BundleError, MissingExtraError
from agora.scorers.atoms import atom
from agora.scorers.bundle import Bundle
from agora.scorers.encoder import Encoder, encoder_of
from agora.scorers.features import WEIGHTS
from agora.scorers.structure import FEATURES, VALUES, columns
from agora.scorers.tables import Tables, read

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

HEAD = "head.json"
HEAD_FORMAT = "agora-embedding-head-1"
MINILM_SHA256 = "a4ac2e78efad22fc57febe507ba1a8f60664453fccbf8c40a0779193e65973fd"
"""Of the manifest in the distribution agora-context-minilm, which has the hashes of its files."""
_NEEDS = ("numpy", "onnxruntime", "tokenizers")
_CHARACTERS_PER_TOKEN = 5
"""So much of each half of a step is cut into tokens: enough to fill the window."""
_MOST_REMEMBERED = 24_000_000
_VECTOR_CHARACTERS = 2_000
"""What a vector weighs on top of the text it was made from."""
_MOST_NUMBER = 1e6
_MOST_LOGIT = 60.0


@dataclass(frozen=True, slots=True)
class EmbeddingScorer:
    """Scores a step by the probability that the next action needs a name that only it brought.

    Everything in the bundle is read at the first question, not before, and
    checked against its hash; whatever is wrong with it is raised then, where a
    compressor goes on by its rule. The first question about a trajectory costs
    one pass for each of its steps.
    """

    bundle: Bundle

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return one calibrated probability per step."""
        return _model(self.bundle).score(anchor, steps)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Head:
    """A logistic regression on the features' sum and on vectors, seen along a few directions.

    With u the coordinates of a step and w those of the newest one, its logit is
    `margin * sum + step @ u + both @ (u * w) + intercept`.
    """

    center: "Floats"
    directions: "Floats"
    """One row for each coordinate, scaled so that it has variance 1."""
    step: "Floats"
    both: "Floats"
    margin: float
    intercept: float
    slope: float = 1.0
    shift: float = 0.0
    """Platt's: the probability is the logistic of slope * logit + shift."""

    def logits(self, sums: "Floats", steps: "Floats") -> "Floats":
        """Return one number per step; the last row of `steps` is the newest."""
        w = self.directions @ (steps[-1] - self.center)
        # All that is asked of a step's vector is its product with this one.
        asked = (self.step + self.both * w) @ self.directions
        everywhere = self.intercept - asked @ self.center
        found: Floats = self.margin * sums + steps @ asked + everywhere
        return found

    def probabilities(self, logits: "Floats") -> list[float]:
        """Return the calibrated probability of each logit."""
        import numpy as np

        bounded = np.clip(self.slope * logits + self.shift, -_MOST_LOGIT, _MOST_LOGIT)
        found: list[float] = (1 / (1 + np.exp(-bounded.astype(np.float64)))).tolist()
        return found

    def write(self) -> bytes:
        """Return it as a file of a bundle."""
        said: dict[str, Any] = {"format": HEAD_FORMAT}
        said.update({name: getattr(self, name) for name in _NUMBERS})
        for name in _ARRAYS:
            array = getattr(self, name)
            rows = array if array.ndim == 2 else [array]
            short = [[float(f"{value:.6g}") for value in row.tolist()] for row in rows]
            said[name] = short if array.ndim == 2 else short[0]
        return (json.dumps(said, separators=(",", ":")) + "\n").encode()


_NUMBERS = ("margin", "intercept", "slope", "shift")
_ARRAYS = ("center", "directions", "step", "both")


def read_head(data: bytes) -> Head:
    """Return the head in a file of a bundle.

    Raises:
        BundleError: something in it is not as it has to be.
    """
    import numpy as np

    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != HEAD_FORMAT:
        raise _wrong(f"is not of the format {HEAD_FORMAT}")
    try:
        read_in = {
            name: np.array(found.get(name), dtype=np.float32) for name in (*_NUMBERS, *_ARRAYS)
        }
    except (ValueError, TypeError, OverflowError):
        raise _wrong("has something other than numbers where numbers belong") from None
    count, width = (*read_in["directions"].shape, 0, 0)[:2]
    shapes = {"center": (width,), "directions": (count, width)}
    for name, array in read_in.items():
        expected = () if name in _NUMBERS else shapes.get(name, (count,))
        # Not a number fails the comparison too.
        if array.shape != expected or not array.size or not (abs(array) <= _MOST_NUMBER).all():
            raise _wrong(f"has values in {name} that no training gives")
    known: dict[str, Any] = {name: float(read_in[name]) for name in _NUMBERS}
    known.update({name: read_in[name] for name in _ARRAYS})
    return Head(**known)


def step_text(step: Step, tokens: int) -> str:
    """Return what the encoder reads of a step, in training and in serving."""
    return atom(step, characters=tokens * _CHARACTERS_PER_TOKEN).text


@lru_cache(maxsize=4)
def _model(bundle: Bundle) -> "_Model":
    try:
        for name in _NEEDS:
            import_module(name)
    except ImportError as error:
        raise MissingExtraError(__name__, "onnx") from error
    encoder = encoder_of(bundle)
    tables = read(bundle.read(WEIGHTS).decode("utf-8", "replace"), features=FEATURES, values=VALUES)
    return _Model(encoder, read_head(bundle.read(HEAD)), tables)


class _Model:
    """All of a bundle, ready, with the vectors of the steps that were seen lately."""

    def __init__(self, encoder: Encoder, head: Head, tables: Tables) -> None:
        self._encoder, self._head, self._tables = encoder, head, tables
        self._tokens = int(encoder.settings["tokens"])
        self._vectors = _Remembered(self._vector)

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> list[float]:
        import numpy as np

        if not steps:
            return []
        sums = np.array(self._tables.margins(columns(anchor, steps)), dtype=np.float32)
        vectors = np.array([self._vectors(step) for step in steps])
        return self._head.probabilities(self._head.logits(sums, vectors))

    def _vector(self, step: Step) -> "Floats":
        found: Floats = self._encoder.encode([step_text(step, self._tokens)])[0]
        if found.shape != self._head.center.shape:
            raise _wrong(f"is for vectors of {len(self._head.center)} numbers, not {found.shape}")
        return found


_Key = tuple[str, str, tuple[Call, ...]]


class _Remembered:
    """The vectors of steps by what they say, in bounded memory; the oldest are forgotten first.

    Two dictionaries take turns: when one is full the other is emptied, and what
    is still asked for moves over. A trajectory that is being worked on is never
    forgotten at once, and no lock is needed.
    """

    def __init__(
        self, compute: "Callable[[Step], Floats]", most_characters: int = _MOST_REMEMBERED
    ) -> None:
        self._compute = compute
        self._most = most_characters // 2
        self._new: dict[_Key, Floats] = {}
        self._old: dict[_Key, Floats] = {}
        self._used = 0

    def __call__(self, step: Step) -> "Floats":
        key = (step.action, step.observation, step.calls)
        found = self._new.get(key)
        if found is not None:
            return found
        found = self._old.get(key)
        if found is None:
            found = self._compute(step)
        weight = len(step.action) + len(step.observation) + _VECTOR_CHARACTERS
        if weight <= self._most:
            if self._used + weight > self._most:
                self._old, self._new, self._used = self._new, {}, 0
            self._used += weight
            self._new[key] = found
        return found


def _wrong(problem: str) -> BundleError:
    return BundleError(HEAD, f"{problem}; train or install it again")
