"""A provider's own clearing of old tool results, by its documented defaults.

Anthropic's `clear_tool_uses_20250919`: when a prompt is above 100,000 input tokens, every tool
result but those of the newest three tool uses is replaced by a placeholder, on the server. Calls
stay, and thinking. The cached prefix ends where something was cleared.

The next call, for which the client sends everything again, is not documented. We assume the cheaper
reading: cleared results stay cleared, and more are cleared only when the prompt without them is
above the trigger again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from agora.core.forms import Form, Place
from agora.core.markers import Markers
from agora.core.prices import PriceSheet
from agora.core.tokens import TokenCounter
from agora.logs.moments import prompt_tokens
from agora.replay.measure import Measured
from agora.replay.prompts import Prompt, Writer

TRIGGER_TOKENS = 100_000
KEPT_USES = 3
PLACEHOLDER = "[tool result cleared]"
"""About as long as the provider's placeholder; its words are not documented."""
_FAMILY = "claude-"
_CLEARED = (Place(None, ""),)


@dataclass(frozen=True, slots=True)
class Placeholders(Markers):
    """The text that replaces a result that the provider has cleared."""

    def run(self, forms: Sequence[Form], *, in_user_text: bool = False) -> str:  # noqa: ARG002
        """Return the placeholder; no step is removed whole."""
        return PLACEHOLDER

    def note(self, number: int, text: str) -> str:  # noqa: ARG002
        """Return the placeholder."""
        return PLACEHOLDER


def clears(sheet: PriceSheet) -> bool:
    """Return True if the provider of a price sheet's model offers this clearing."""
    return sheet.name.startswith(_FAMILY)


def is_triggered(measured: Measured) -> bool:
    """Return True if a prompt is large enough to be cleared."""
    sizes = prompt_tokens(measured.trajectory, measured.moments)
    return max(sizes) * measured.unseen.scale > TRIGGER_TOKENS


def cleared(measured: Measured, counter: TokenCounter) -> Iterator[Prompt]:
    """Yield each call's prompt without the results that would have been cleared by then."""
    writer = Writer(measured.trajectory, lambda _: Placeholders(), counter, measured.cuts)
    steps, scale = measured.trajectory.steps, measured.unseen.scale
    uses = [0, *accumulate(len(step.calls) for step in steps)]
    elided: Sequence[Form] = ()
    for moment in measured.moments:
        before, segments = elided, writer.prompt(moment, elided)
        if sum(segment.tokens for segment in segments) * scale > TRIGGER_TOKENS:
            # A step with several calls is cleared when all of them have become old.
            old = uses[moment.steps] - KEPT_USES
            found = tuple(
                Form(step.number, "note", _CLEARED, 0)
                for step in steps[: moment.steps]
                if step.calls and uses[step.number] <= old
            )
            if found != before:
                elided, segments = found, writer.prompt(moment, found)
        yield Prompt(segments, elided, elided is not before)
