"""The action of every step, then the newest results that fit."""

import re

from agora import TokenCounter
from agora_lab.chats import COUNTER, Chat, ChatStep, Message, read, text_of, with_text
from agora_lab.methods.base import Messages, MethodSettings, Shortened

NOTE = "[output removed to save space]"
_FENCED = re.compile(r"```\w*\n.*?```", re.DOTALL)
_THOUGHT = re.compile(r"\s*(?:thought|reasoning|thinking)s?\b", re.IGNORECASE)


class CommandsFirst:
    """Keeps every command, with a note in place of its result, and as many results as fit.

    Outside the floor a step's thoughts are dropped. Where not even the commands fit, the oldest
    steps are omitted.
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
        """Return the messages with every command and some results."""
        chat = read(messages, self._counter)
        whole_room = chat.room(self._keep_ratio, self._share)
        if chat.tokens <= whole_room:
            return Shortened(messages=messages, detail="everything fits")
        outside = chat.steps[: len(chat.steps) - len(chat.floor())]
        room = whole_room - chat.floor_tokens()
        changes = {s.number: chat.masked(s, NOTE) | _command_only(chat, s) for s in outside}
        costs = {s.number: s.tokens - chat.saved(changes[s.number]) for s in outside}
        spent = sum(costs.values())
        gone: set[int] = set()
        for step in outside:
            if spent <= room:
                break
            gone.add(step.number)
            spent -= costs[step.number]
        for step in reversed(outside):
            more = step.tokens - costs[step.number]
            if step.number not in gone and spent + more <= room:
                spent += more
                changes[step.number] = {}
        changed = {at: new for one in changes.values() for at, new in one.items()}
        if not changed and not gone:
            return Shortened(messages=messages, detail="there is nothing to shorten")
        return Shortened(messages=chat.replaced(changed, gone))


def _command_only(chat: Chat, step: ChatStep) -> dict[int, Message]:
    """Return a text agent's message without its thoughts, by place, if it has any."""
    if chat.calls:
        return {}
    text = text_of(chat.messages[step.start])
    fenced = _FENCED.findall(text)
    if fenced:
        command = fenced[-1]
    else:
        command = "\n".join(line for line in text.splitlines() if not _THOUGHT.match(line))
    if not command.strip() or command == text:
        return {}
    return {step.start: with_text(chat.messages[step.start], command)}
