"""Scorers by name, or from the folder of a trained one."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from agora.core.scorer import NAMES, Scorer
from agora.core.trajectory import Query, Step
from agora.errors import BundleError, nearest
from agora.scorers.bm25 import BM25Scorer
from agora.scorers.bundle import MANIFEST, read_bundle
from agora.scorers.recency import RecencyScorer

_log = logging.getLogger(__name__)
DEFAULT = "recency"
BUILT_IN: Mapping[str, Callable[[], Scorer]] = MappingProxyType(
    dict(zip(NAMES, (RecencyScorer, BM25Scorer), strict=True))
)
"""The scorers that need no training."""


def load_scorer(name: str | Path = DEFAULT) -> Scorer:
    """Return a scorer by its name, or the one in a bundle's folder.

    The names are `recency`, the default, and `bm25`. Anything else is a folder that `agora lab
    train` wrote. Only its manifest is read here. The weights are read and checked against their
    hash at the first call. A damaged bundle gives a scorer that raises then, and a compressor
    continues by recency. Nothing in a bundle is ever executed.

    >>> type(load_scorer()).__name__
    'RecencyScorer'

    Raises:
        BundleError: There is no scorer of that name and no bundle in that folder, or it cannot
            be read.
    """
    make = BUILT_IN.get(str(name))
    if make is not None:
        return make()
    folder = Path(name)
    try:
        is_bundle = (folder / MANIFEST).is_file()
    except OSError as error:
        raise BundleError(str(name), f"cannot be read: {error.strerror or error}") from error
    if not is_bundle:
        near = nearest(name, NAMES)
        raise BundleError(
            str(name), f"is no scorer ({', '.join(NAMES)}) and no folder with a {MANIFEST}{near}"
        )
    try:
        bundle = read_bundle(folder)
    except BundleError as error:
        return _unusable(error)
    if bundle.scorer != "cross_encoder":
        problem = f"holds a scorer of the kind {bundle.scorer!r}; this version knows cross_encoder"
        return _unusable(BundleError(str(folder), problem))
    from agora.scorers.cross_encoder import CrossEncoderScorer

    return CrossEncoderScorer(bundle)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Replaces a scorer with a damaged bundle: it raises the reason."""

    error: BundleError

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:  # noqa: ARG002
        """Raise the error of the bundle."""
        raise self.error


def _unusable(error: BundleError) -> Unusable:
    _log.warning("the scorer cannot be used: %s", error)
    return Unusable(error)
