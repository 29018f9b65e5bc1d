"""What a log tells of its calls besides their messages, as `agora replay` counts it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agora.compressor import Compressor
from agora.core.prices import sheet_for
from agora.core.request import Observations
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Trajectory
from agora.errors import AgoraError
from agora.logs import Recording
from agora.replay.measure import Measured, measure


@dataclass(frozen=True, slots=True)
class Logged:
    """A trajectory of a log in the sizes its calls had, with the prices they were made at."""

    measured: Measured
    model: str
    lacks: str

    def sized(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory with what the log does not show in its sizes."""
        return self.measured.unseen.onto(trajectory, self.measured.moments)

    def priced(self, compressor: Compressor) -> Compressor:
        """Return the compressor with the prices of the time to live that the calls wrote for."""
        sheet = compressor.sheet or sheet_for(self.model)
        return replace(compressor, sheet=sheet.for_ttl(self.measured.ttl))

    @property
    def unseen_tokens(self) -> int:
        """What every call sent before the first message and the log does not show."""
        unseen = self.measured.unseen
        return round(unseen.tokens / unseen.scale)

    def notes(self) -> Iterator[str]:
        """Yield what people should know."""
        if self.unseen_tokens:
            yield (
                f"Not in the log: {self.lacks}, about {round(self.unseen_tokens, -3):,} tokens "
                "according to its usage. They are counted, as in agora replay."
            )
        if self.measured.shortened:
            yield (
                f"agora replay leaves this one as it was: {self.measured.shortened}. "
                "What you see is what an edit of the logged text would do."
            )


def logged(
    recording: Recording | None,
    *,
    model: str | None,
    format: str,
    observations: Observations | None,
) -> Logged | None:
    """Return what a log tells of a trajectory in it; None if it is in none, or tells nothing.

    Model, format and observations are what the caller says, or what the log does.
    """
    if recording is None:
        return None
    as_said = replace(recording, model=model, format=format, observations=observations)
    try:
        return Logged(measure(as_said, EstimatedTokens()), model or "", recording.lacks)
    except AgoraError:
        return None
