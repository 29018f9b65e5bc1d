"""What a wrapped client has saved, in requests and tokens."""

import threading
from dataclasses import dataclass
from typing import Any

from agora.core.compression import Compression, Reason
from agora.errors import SettingError

COUNTED = "_agora_counted"
"""Where the class of a wrapped client has its figures."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What a wrapped client has saved so far.

    >>> print(Saved(requests=12, edited=9, tokens_before=80_000, tokens_after=46_000))
    12 requests, 9 edited: 80,000 -> 46,000 tokens, 42% less
    """

    requests: int = 0
    """The prompts it sent, those that it tried again included."""
    edited: int = 0
    tokens_before: int = 0
    """Of all prompts together, as estimated here; the provider's usage has its own count."""
    tokens_after: int = 0
    shadow: bool = False
    """Whether nothing was edited, and these are the figures of the edits not made."""

    @property
    def tokens(self) -> int:
        """How many tokens were not sent."""
        return self.tokens_before - self.tokens_after

    def __str__(self) -> str:
        less = f"{self.tokens / self.tokens_before:.0%}" if self.tokens_before else "0%"
        requests = "1 request" if self.requests == 1 else f"{self.requests:,} requests"
        edited = "would have been edited (shadow)" if self.shadow else "edited"
        return (
            f"{requests}, {self.edited:,} {edited}: "
            f"{self.tokens_before:,} -> {self.tokens_after:,} tokens, {less} less"
        )

    def after(self, compression: Compression) -> "Saved":
        """Return these figures with one request more."""
        shadowed = compression.reason is Reason.SHADOW
        return Saved(
            self.requests + 1,
            self.edited + (compression.changed or shadowed),
            self.tokens_before + compression.tokens_before,
            self.tokens_after + compression.tokens_after,
            self.shadow,
        )


class Counted:
    """The figures of a client while it works. Asynchronous clients compress in threads."""

    def __init__(self, *, shadow: bool) -> None:
        self.saved = Saved(shadow=shadow)
        self._adding = threading.Lock()

    def add(self, compression: Compression) -> None:
        """Count one request."""
        with self._adding:
            self.saved = self.saved.after(compression)


def saved(client: Any) -> Saved:
    """Return what a client that `agora.wrap` returned has saved so far.

    Copies that `with_options` makes count together with it. In shadow mode it is what edits
    would have saved.

    Raises:
        SettingError: the client is not wrapped.
    """
    counted = getattr(client, COUNTED, None)
    if not isinstance(counted, Counted):
        kind = type(client)
        found = f"a {kind.__module__}.{kind.__qualname__} that is not wrapped"
        raise SettingError("client", found, "what agora.wrap(client) returned")
    return counted.saved
