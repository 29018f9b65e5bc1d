"""The seam between integrations and the library: shorten a call, fail open, count the savings."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from agora.compressor import Compressor
from agora.core.compression import Compression, Reason
from agora.core.prices import PriceSheet, sheet_for
from agora.formats.usage import Usage, read_usage
from agora.savings import Ledger, warn_unknown
from agora.session import Session

T = TypeVar("T")
_log = logging.getLogger("agora.integrations")
_MOST_WAITING = 1_024


class Shortener:
    """Shortens the calls of one client or integration, and keeps their sums.

    It raises no error: a call that cannot be shortened is sent unchanged.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        # A strict compressor raises, which would end the agent's run.
        self._compressor = replace(compressor or Compressor(), strict=False)
        self._session = Session(self._compressor)
        self.ledger = Ledger(shadow=self._compressor.shadow)
        self._failed = False
        self._waiting: dict[str, tuple[Compression, str | None]] = {}
        """Calls without an answer, by the framework's name for them."""

    def attempt(self, edit: Callable[[], T], otherwise: T) -> T:
        """Return the result of `edit`, or `otherwise` with one warning if it raises."""
        try:
            return edit()
        except Exception as error:
            level = logging.DEBUG if self._failed else logging.WARNING
            self._failed = True
            _log.log(level, "messages sent unchanged: %s: %s", type(error).__name__, error)
            return otherwise

    def shorten(self, messages: Any, *, model: str | None, **options: Any) -> Compression:
        """Return the compression of a call; `options` are those of `Compressor.compress`."""
        if model and self._compressor.sheet is None:
            warn_unknown(model)
        compression = self._session.compress(messages, model=model, **options)
        decided = compression.changed or compression.reason is Reason.SHADOW
        level = logging.INFO if decided else logging.DEBUG
        _log.log(level, "%s", compression.summary(), extra={"compression": compression})
        return compression

    def answered(
        self, compression: Compression, usage: Any, model: str | None, *, answer: Any = None
    ) -> None:
        """Count a call that the provider answered.

        Args:
            compression: The compression that was sent.
            usage: The provider's usage, in any API's shape; None if it reported none.
            model: The model it went to.
            answer: The answer's body or messages, in the format of the call, if known.
        """
        counts = usage if isinstance(usage, Usage) else read_usage(usage)

        def count() -> None:
            self._session.answered(compression, answer=answer, usage=counts)
            self.ledger.add(compression, counts, self._sheet(model))

        self.attempt(count, None)

    def wait(self, call: str, compression: Compression, model: str | None) -> None:
        """Keep a call until its answer comes; of too many the oldest is dropped."""
        self._waiting[call] = compression, model
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def waits(self, call: str) -> bool:
        """Return True if a call has no answer yet."""
        return call in self._waiting

    def came(self, call: str, usage: Any, *, answer: Any = None) -> None:
        """Count a call that was waiting, as `answered` does."""
        waiting = self._waiting.pop(call, None)
        if waiting:
            self.answered(waiting[0], usage, waiting[1], answer=answer)

    def refused(self, compression: Compression, *, about_thinking: bool) -> Compression | None:
        """Return the messages for the single retry after a refused call, or None."""
        return self._session.refused(compression, about_thinking=about_thinking)

    def _sheet(self, model: str | None) -> PriceSheet:
        return self._compressor.sheet or sheet_for(model or "")
