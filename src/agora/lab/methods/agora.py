"""AGORA itself, as one method among the others."""

from dataclasses import dataclass, field

from agora.compressor import Compressor
from agora.core.compression import Reason
from agora.lab.methods.base import Messages, Shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class Agora:
    """Shortens with a compressor; observations are user messages.

    With the schedule by price a small prompt may never be edited: below a
    provider's smallest cacheable prefix, or early in an episode, an edit does
    not pay. What it says then is in the detail.
    """

    compressor: Compressor = field(default_factory=Compressor)
    model: str | None = None
    """The model that is taken to answer, for its prices; without it editing is dear."""

    def shorten(self, messages: Messages) -> Shortened:
        """Return the compressed messages."""
        compression = self.compressor.compress(
            messages, format="openai", observations="user", model=self.model
        )
        if compression.reason is Reason.COMPRESSED:
            return Shortened(messages=compression.messages)
        return Shortened(messages=messages, detail=compression.summary())
