"""Scorers by name, or from a bundle's folder."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora.errors import BundleError, nearest
from agora.scorers.built_in import BUILT_IN, NAMES, default_scorer
from agora.scorers.bundle import MANIFEST, Bundle, read_bundle
from agora.scorers.features import FeaturesScorer
from agora.scorers.worth import WorthScorer

_log = logging.getLogger(__name__)


def load_scorer(name: str | Path = "default") -> Scorer:
    """Return a scorer by its name, or the one in a bundle's folder.

    Names are `worth`, `features`, `lexical` and `recency`, and `default` for the one that is
    used where none is named. Anything else is a folder that `agora train` wrote. Of a folder
    only the manifest is read here; the weights are read and checked against their hash
    when the scorer is first asked. A bundle that is damaged anywhere gives a
    scorer that says so when it is asked, and a compressor then goes on by its
    rule: an agent should not stop because of it. Nothing in a bundle is ever run.

    >>> type(load_scorer("default")).__name__
    'WorthScorer'

    Raises:
        BundleError: there is no scorer of that name and no bundle in that folder, or it cannot
            be read.
    """
    make = _NAMED.get(str(name))
    if make is not None:
        return make()
    folder = Path(name)
    try:
        found = (folder / MANIFEST).is_file()
    except OSError as error:
        raise BundleError(str(name), f"cannot be read: {error.strerror or error}") from error
    if not found:
        near = nearest(name, NAMES)
        raise BundleError(
            str(name), f"is no scorer ({', '.join(NAMES)}) and no folder with a {MANIFEST}{near}"
        )
    return _of_bundle(folder)


_NAMED: dict[str, Callable[[], Scorer]] = {
    **BUILT_IN,
    "default": default_scorer,
}


def _of_bundle(folder: Path) -> Scorer:
    try:
        bundle = read_bundle(folder)
        return _kind(bundle)(bundle)
    except BundleError as error:
        _log.warning("the scorer cannot be used: %s", error)
        return Unusable(error)


def _kind(bundle: Bundle) -> Callable[[Bundle], Scorer]:
    make = _KINDS.get(bundle.scorer)
    if make is None:
        known = ", ".join(_KINDS)
        raise BundleError(
            str(bundle.folder),
            f"holds a scorer of the kind {bundle.scorer!r}; this version knows {known}",
        )
    return make


@dataclass(frozen=True, slots=True)
class Unusable:
    """What stands in for a scorer whose bundle is damaged: it has no score, only the reason."""

    error: BundleError

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:  # noqa: ARG002
        """Raise what was found when the bundle was read."""
        raise self.error


def _cross_encoder(bundle: Bundle) -> Scorer:
    from agora.scorers.cross_encoder import CrossEncoderScorer

    return CrossEncoderScorer(bundle)


_KINDS: dict[str, Callable[[Bundle], Scorer]] = {
    "features": FeaturesScorer,
    "worth": WorthScorer,
    "cross_encoder": _cross_encoder,
}
