"""A controlled experiment on real traffic: one arm is edited, an equal arm is sent whole.

The service draws the arm of a conversation and logs it with each call; `report` reads the log.
Nothing is stored, and nothing stops by itself: guard rails are alerts over the service's metrics.
Standard library only.
"""

from agora.experiment.assignment import Arm, Draw, arm_of

__all__ = ["Arm", "Draw", "arm_of"]
