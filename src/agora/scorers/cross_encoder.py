"""The paper's scorer (Eq. 3): an encoder that reads the current observation and a step together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agora.core.trajectory import Query, Step
from agora.errors import BundleError
from agora.scorers.atoms import SIDE_CHARACTERS, pair_texts
from agora.scorers.bundle import CROSS_ENCODER, Bundle
from agora.scorers.encoder import encoder_of


@dataclass(frozen=True, slots=True)
class CrossEncoderScorer:
    """Scores a step by one forward pass over the current observation and the step's atom.

    The score is the softmax probability of the second class. The weights are read at the first
    call and checked against their hash.
    """

    bundle: Bundle
    threads: int = 1

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        """Return one probability per step.

        Raises:
            BundleError: The bundle is damaged, or of another kind of scorer.
            MissingExtraError: The extra `onnx` is not installed.
        """
        folder = str(self.bundle.folder)
        if self.bundle.scorer != CROSS_ENCODER:
            raise BundleError(folder, f"is of the kind {self.bundle.scorer!r}")
        encoder = encoder_of(self.bundle, self.threads)
        if not steps:
            return []
        characters = encoder.settings.get("characters", SIDE_CHARACTERS)
        logits = encoder.encode(pair_texts(query, steps, characters=characters))
        if logits.shape[1] != 2:
            raise BundleError(folder, f"gives {logits.shape[1]} numbers a pair instead of 2")
        # The softmax of two classes, by tanh, since exp overflows for logits that are far apart.
        return [0.5 + 0.5 * math.tanh((float(b) - float(a)) / 2) for a, b in logits]
