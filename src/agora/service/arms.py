"""Assign conversations to the arms of an experiment by a keyed hash."""

from agora.experiment.assignment import Arm, Draw, arm_of
from agora.service.settings import Experiment


def arm_for(experiment: Experiment, secret: bytes, owner: str, conversation: str) -> Arm:
    """Return the arm of a conversation. It waits if its beginning is not known.

    >>> arm_for(Experiment(share=0.5), b"secret", "t-1", "c").value in ("agora", "everything")
    True
    """
    if not conversation:
        return Arm.WAITING
    draw = Draw(experiment.name, secret)
    return arm_of(draw.id_of(owner, conversation.encode()), experiment.share)
