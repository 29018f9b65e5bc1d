"""AGORA's default, as one method among the others."""

from typing import Any

from agora import AgoraError, Budget, Compressor, TokenCounter, load_scorer
from agora_lab.methods.base import Messages, MethodSettings, Shortened, SkipMethod


class Agora:
    """Shortens with a `Compressor`; by default when an edit pays for itself.

    A small prompt may never be edited: below a provider's smallest cacheable prefix, or early in
    an episode, an edit does not pay off. The detail then gives the reason.
    """

    def __init__(
        self,
        settings: MethodSettings,
        *,
        share: float | None = None,
        counter: TokenCounter | None = None,
        session: bool = False,
        **options: Any,
    ) -> None:
        """Make the compressor.

        Args:
            settings: The `keep_ratio` is a share of the whole prompt.
            share: A share of the tokens outside the floor instead.
            counter: Counts the tokens of the budget.
            session: Keep the schedule's state between calls, as clients and proxy do.
            options: Fields of `Compressor`, such as `edits`.

        Raises:
            SkipMethod: The scorer cannot be loaded.
        """
        budget = Budget(keep_ratio=settings.keep_ratio)
        if share is not None:
            budget = Budget(keep_ratio=0.0, min_ratio=share)
        if settings.scorer is not None:
            options["scorer"] = loaded(settings.scorer)
        compressor = Compressor(budget=budget, counter=counter, **options)
        self._compress = (compressor.session() if session else compressor).compress
        self._settings = settings

    def shorten(self, messages: Messages) -> Shortened:
        """Return the compressed messages."""
        compression = self._compress(
            messages,
            format="openai",
            observations=self._settings.observations,
            model=self._settings.model,
        )
        detail = "" if compression.changed else compression.summary()
        return Shortened(
            messages=compression.messages if compression.changed else messages, detail=detail
        )


def loaded(scorer: Any) -> Any:
    """Return a scorer, loaded if it is given by its name or folder.

    Raises:
        SkipMethod: It cannot be loaded.
    """
    if not isinstance(scorer, str):
        return scorer
    try:
        return load_scorer(scorer)
    except AgoraError as error:
        raise SkipMethod(f"weights absent: {error}") from error
