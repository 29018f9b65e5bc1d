"""The calls of a trajectory, each as the number of steps and utterances before it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agora.core.trajectory import Trajectory
from agora.logs.recording import Recording


@dataclass(frozen=True, slots=True)
class Moment:
    """A call: how many steps and utterances came before it."""

    steps: int
    said: int


def moments_of(recording: Recording, trajectory: Trajectory) -> list[Moment]:
    """Return the recording's own calls: one before each step and each utterance of the agent.

    A recording without any counts as one call.
    """
    own = list(_moments(trajectory))[recording.earlier_calls :]
    if (recording.calls and recording.calls[-1] >= len(recording.messages)) or (
        len(recording.usage) == len(own) + 1
    ):
        # The last call's answer was never sent back, but the call was made and paid for.
        own.append(Moment(len(trajectory.steps), len(trajectory.utterances)))
    return own or [Moment(0, 0)]


def prompt_tokens(trajectory: Trajectory, moments: Sequence[Moment]) -> list[int]:
    """Return how many tokens each call's prompt has, as they were counted in the trajectory."""
    steps = [0]
    for step in trajectory.steps:
        steps.append(steps[-1] + step.tokens)
    said = [trajectory.preamble_tokens]
    for utterance in trajectory.utterances:
        said.append(said[-1] + utterance.tokens)
    return [steps[moment.steps] + said[moment.said] for moment in moments]


def _moments(trajectory: Trajectory) -> Iterator[Moment]:
    said = 0
    for done in range(len(trajectory.steps) + 1):
        while said < len(trajectory.utterances) and trajectory.utterances[said].after <= done:
            if not trajectory.utterances[said].by_user:
                yield Moment(done, said)
            said += 1
        if done < len(trajectory.steps):
            yield Moment(done, said)
