"""What DeepSeek accepts: OpenAI chat, with the reasoning handed back while it still thinks."""

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.chat_reasoning import check_deepseek, is_v4
from agora.adapters.rules.openai_chat import check_pairs
from agora.adapters.rules.shape import as_object, read_messages
from agora.core.request import Request

_ROLES = ("system", "user", "assistant", "tool")


def check(request: Request, _before: object = None) -> list[Broken]:
    """Return the DeepSeek rules broken; D1 and D2 only where thinking is known to be on.

    From V4 on it is on unless it was turned off.
    """
    out: list[Broken] = []
    items = read_messages(request.messages, "messages", out)
    check_pairs(items, _ROLES, out)
    if is_v4(request):
        check_deepseek(items, request, out)
    elif request.thinking:
        _check_reasoning(items, out)
    return out


def _check_reasoning(items: list[object], out: list[Broken]) -> None:
    """Put down calls without their reasoning: D1 after the last user message, D2 before it."""
    code = "D1"
    for n in range(len(items) - 1, -1, -1):
        message = as_object(items[n])
        if message.get("role") == "user":
            code = "D2"
        elif (
            message.get("role") == "assistant"
            and message.get("tool_calls")
            and not isinstance(message.get("reasoning_content"), str)
        ):
            out.append(broke(code, n))
