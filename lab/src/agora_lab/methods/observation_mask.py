"""Old observations replaced by a fixed text, every action kept."""

from agora import TokenCounter
from agora_lab.chats import COUNTER, K_RECENT, Chat, Message, read
from agora_lab.methods.base import Messages, MethodSettings, Shortened

MASK = "[old observation left out]"


class ObservationMask:
    """Keeps the newest observations and masks those before them.

    After Lindenbauer et al. (2025), who keep 10. The AGORA paper keeps 2.
    """

    def __init__(self, _settings: MethodSettings, *, window: int = K_RECENT) -> None:
        """Keep `window` observations."""
        self._window = max(window, 1)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old observations masked."""
        chat = read(messages)
        masked: dict[int, Message] = {}
        for step in chat.steps[: -self._window]:
            masked |= chat.masked(step, MASK)
        if not masked:
            return Shortened(messages=messages, detail="every observation is in the window")
        return Shortened(messages=chat.replaced(masked))


class MatchedMask:
    """Masks the oldest observations until the prompt fits the budget.

    All actions are kept, so a small budget may not be reached.
    """

    def __init__(
        self,
        settings: MethodSettings,
        *,
        share: float | None = None,
        counter: TokenCounter = COUNTER,
    ) -> None:
        """Set the budget: the `keep_ratio`, or a `share` of the tokens outside the floor."""
        self._keep_ratio = settings.keep_ratio
        self._share = share
        self._counter = counter

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old observations masked."""
        chat = read(messages, self._counter)
        masked = masked_to(chat, chat.room(self._keep_ratio, self._share), MASK)
        if not masked:
            return Shortened(messages=messages, detail="every observation fits")
        return Shortened(messages=chat.replaced(masked))


def masked_to(chat: Chat, room: int, mask: str) -> dict[int, Message]:
    """Return the oldest observations outside the floor, masked, as many as have to be."""
    masked: dict[int, Message] = {}
    excess = chat.tokens - room
    for step in chat.steps[: len(chat.steps) - len(chat.floor())]:
        if excess <= 0:
            break
        changes = chat.masked(step, mask)
        excess -= chat.saved(changes)
        masked |= changes
    return masked
