"""Facts of a log beyond its messages: sizes, prices and hidden text, as in `agora replay`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agora.compressor import Compressor
from agora.core.prices import sheet_for
from agora.core.request import Observations
from agora.core.schedule import State
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Trajectory
from agora.errors import AgoraError
from agora.logs import Recording
from agora.replay.measure import Measured, measure
from agora.replay.needs import Needs
from agora.replay.simulate import Account, Agora


@dataclass(frozen=True, slots=True)
class Logged:
    """A trajectory of a log with the sizes and prices of its calls."""

    measured: Measured
    model: str
    lacks: str

    def sized(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory with the tokens that the log hides added to its sizes."""
        return self.measured.unseen.onto(trajectory, self.measured.moments)

    def priced(self, compressor: Compressor) -> Compressor:
        """Return the compressor with the prices of the calls' cache lifetime."""
        sheet = compressor.sheet or sheet_for(self.model)
        return replace(compressor, sheet=sheet.for_ttl(self.measured.ttl))

    def state(self, compressor: Compressor) -> State | None:
        """Return the schedule's state after the logged calls, as `agora replay` counts them."""
        measured = self.measured
        if measured.shortened or compressor.edits == "every_call":
            return None
        calls = Agora(measured, compressor)
        calls.send(Account(measured, compressor.policy().sheet, Needs(measured.trajectory)))
        return calls.state

    @property
    def unseen_tokens(self) -> int:
        """Tokens before the first message that every call sent and the log hides."""
        unseen = self.measured.unseen
        return round(unseen.tokens / unseen.scale)

    def notes(self) -> Iterator[str]:
        """Yield notes for the user."""
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
    """Return the facts of a log about one of its trajectories, or None if there are none.

    Model, format and observations are the caller's, or else those of the log.
    """
    if recording is None:
        return None
    as_said = replace(recording, model=model, format=format, observations=observations)
    try:
        return Logged(measure(as_said, EstimatedTokens()), model or "", recording.lacks)
    except AgoraError:
        return None
