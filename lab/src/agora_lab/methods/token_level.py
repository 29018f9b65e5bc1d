"""Helpers of token-level methods: the texts they may cut, and the places of the results.

They are made for plain text, so they cut actions as they cut observations. Instructions, task and
the newest step stay. Calls of tools stay as they are, since no provider takes half a call.
"""

from collections.abc import Callable, Sequence

from agora_lab.chats import Message, append, read, text_of, with_text
from agora_lab.methods.base import Messages, Shortened

_NO_PAST = "there is no past step"


def cut_tokens(messages: Messages, cut: Callable[[Sequence[str]], Sequence[str]]) -> Shortened:
    """Shorten the text of each past message."""
    chat = read(messages)
    first = len(chat.preamble)
    newest = chat.steps[-1].start if chat.steps else first
    places = [at for at in range(first, newest) if text_of(messages[at]).strip()]
    if not places:
        return Shortened(messages=messages, detail=_NO_PAST)
    # Some providers refuse a message without text.
    texts = [text.strip() or "..." for text in cut([text_of(messages[at]) for at in places])]
    changes: dict[int, Message] = {
        at: with_text(messages[at], text) for at, text in zip(places, texts, strict=True)
    }
    return Shortened(messages=chat.replaced(changes))


def cut_history(messages: Messages, cut: Callable[[Sequence[str], str], str]) -> Shortened:
    """Replace all past messages by one text, given the newest observation as the question."""
    chat = read(messages)
    if len(chat.steps) < 2:
        return Shortened(messages=messages, detail=_NO_PAST)
    past = [text_of(m) for step in chat.steps[:-1] for m in messages[step.start : step.end]]
    texts = [text for text in past if text.strip()]
    sent = list(chat.preamble)
    if texts:
        append(sent, cut(texts, text_of(messages[-1]) or chat.task))
    return Shortened(messages=[*sent, *messages[chat.steps[-1].start :]])
