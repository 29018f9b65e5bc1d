"""Models that bind thinking to the prefix: which blocks a call has to go without.

Such a model refuses or drops a thinking block that comes back behind other messages than it was
made behind. After an edit, or after an edit is left out again, all blocks of the messages so far
are of that kind. Only the process that sent the calls before knows; where nobody knows, and a call
before may have been edited, all older thinking goes.
"""

from collections.abc import Sequence
from typing import Any

from agora.service.call import Call, Edited
from agora.service.memory import State
from agora.service.prompt import Edit, Prompt, decode


def dead_until(
    call: Call, prompt: Prompt, made: Edited, edit: Edit | None, known: tuple[int, State] | None
) -> int:
    """Return how many of the client's first messages go without their thinking.

    Args:
        call: The call.
        prompt: The same, read.
        made: What was decided on it.
        edit: The edit that goes out.
        known: The newest state of the conversation, and how many messages that call had.
    """
    if not call.binds_thinking:
        return 0
    everything = len(prompt.messages)
    if known is None:
        return everything if edit is not None or made.was_edited else 0
    count, state = known
    same = (edit and edit.key) == (state.edit and state.edit.key)
    if not same or _answers(prompt.messages[count:]) > 1:
        # More than one answer since: another process sent a call between, nobody knows how.
        return everything
    return state.dead


def is_refused_thinking(call: Call, refusal: bytes) -> bool:
    """Return True if a provider's refusal is about thinking that the model binds."""
    return b"thinking" in refusal and call.binds_thinking


def _answers(messages: Sequence[Any]) -> int:
    """Return how many messages are the model's."""
    roles = [decode(raw) for raw in messages]
    return sum(isinstance(one, dict) and one.get("role") == "assistant" for one in roles)
