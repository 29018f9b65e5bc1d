"""The paper's scorer: an encoder that reads the anchor and a step together."""

from collections.abc import Sequence
from dataclasses import dataclass

from agora.core.trajectory import Anchor, Step
from agora.errors import BundleError
from agora.scorers.atoms import SIDE_CHARACTERS, anchor_text, atom
from agora.scorers.bundle import Bundle
from agora.scorers.encoder import calibration_of, encoder_of

KIND = "cross_encoder"


@dataclass(frozen=True, slots=True)
class CrossEncoderScorer:
    """Scores a step by one forward pass over the anchor and the step's atom.

    Nothing is kept from one anchor to the next, since every score depends on
    both, so a call costs one pass for each step that differs. The weights are
    read at the first question and checked against their hash; whatever is
    wrong with them is raised then, where a compressor goes on by its rule.
    """

    bundle: Bundle
    threads: int = 1

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return one calibrated probability per step.

        Raises:
            BundleError: the bundle is damaged, or of another kind of scorer.
            MissingExtraError: the extra `onnx` is not installed.
        """
        if self.bundle.scorer != KIND:
            raise BundleError(str(self.bundle.folder), f"is of the kind {self.bundle.scorer!r}")
        encoder = encoder_of(self.bundle, self.threads)
        calibration = calibration_of(self.bundle)
        if not steps:
            return []
        characters = encoder.settings.get("characters", SIDE_CHARACTERS)
        logits = encoder.encode(pair_texts(anchor, steps, characters=characters))
        return calibration.probabilities(logits[:, 0].tolist())


def pair_texts(
    anchor: Anchor, steps: Sequence[Step], *, characters: int = SIDE_CHARACTERS
) -> list[tuple[str, str]]:
    r"""Return what the encoder reads for each step, in training and in serving.

    >>> step = Step(number=1, action="open box 1", observation="key 7", tokens=5)
    >>> pair_texts(Anchor("find key 7", "box 1"), [step])
    [('OBS box 1\nTASK find key 7', 'ACTION open box 1\nOBS key 7')]
    """
    now = anchor_text(anchor, characters=characters)
    return [(now, atom(step, characters=characters).text[:characters]) for step in steps]
