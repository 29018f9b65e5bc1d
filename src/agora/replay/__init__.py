"""Replays recorded sessions: the steps and dollars that AGORA would have removed."""

from agora.replay.page import page
from agora.replay.report import Report, billed_dollars
from agora.replay.run import OWN, Pricing, ReplayOutcome, run
from agora.replay.simulate import MOST_CALLS, Policy, Replayed, replay_by

__all__ = [
    "MOST_CALLS",
    "OWN",
    "Policy",
    "Pricing",
    "ReplayOutcome",
    "Replayed",
    "Report",
    "billed_dollars",
    "page",
    "replay_by",
    "run",
]
