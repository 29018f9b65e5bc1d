"""Which arm of an experiment a conversation is in: a keyed hash decides, nothing is stored."""

from agora.experiment.assignment import Arm, Draw, arm_of
from agora.service.settings import Experiment


def arm_for(experiment: Experiment, secret: bytes, owner: str, conversation: str) -> Arm:
    """Return the arm of a conversation; one whose beginning is not known waits.

    >>> arm_for(Experiment(share=0.5), b"secret", "t-1", "c").value in ("agora", "everything")
    True
    """
    if not conversation:
        return Arm.WAITING
    draw = Draw(experiment.name, secret)
    return arm_of(draw.id_of(owner, conversation.encode()), experiment.share)
