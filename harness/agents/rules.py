"""The rules of the fake provider, with refusals in the provider's words.

Written from the providers' documentation and apart from `agora.formats.rules`, whose findings are
recorded next to these: an edit that pleases only the validator it was checked with proves nothing.
"""

import hashlib
import hmac
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.agents.wire import Json, Route
from harness.signing import Received, Signer, bound_name

SEALED = "enc-"
"""How encrypted reasoning of this provider begins."""
MID_CONVERSATION = ("mid-conversation-", "per-turn-control-")
"""How the betas begin under which a system message may stand within the messages."""
_MARKS = 4
_SECRET = b"a provider's secret"
_SIGNER = Signer()
Blocks = list[Json]


def signature(text: str) -> str:
    """Return the signature of a thought, made with this provider's secret."""
    return "sig-" + hmac.new(_SECRET, text.encode(), hashlib.sha256).hexdigest() * 2


def refusal(route: Route, body: Json, betas: str = "") -> str:
    """Return why a request is refused, or an empty text if it is accepted."""
    check = _CHECKS.get(route)
    return next(check(body, betas), "") if check is not None else ""


def binding(route: Route, body: Json, betas: str, signer: Signer) -> Received:
    """Return the verdict on a request of a provider that binds thinking.

    Separate from `refusal`, which judges a request by itself: an agent's own history may hold
    thinking that was produced under the edited prompt. Assumed: counting tokens checks the same
    rules as answering.
    """
    if route not in ("messages", "count_tokens") or not bound_name(str(body.get("model"))):
        return Received()
    return signer.receive(body, betas=betas)


def _chat(body: Json, _: str) -> Iterator[str]:
    messages = body.get("messages")
    if not messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
        return
    waiting: list[str] = []
    for n, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'."
                )
                return
            waiting.remove(message["tool_call_id"])
            if message.get("content") is None:
                yield f"Invalid value for 'content': expected a string, got null. messages.[{n}]"
            continue
        if waiting:
            break
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
            if len(set(waiting)) < len(waiting):
                yield f"Duplicate value for 'tool_call_id' in messages.[{n}]"
            if not waiting and message.get("content") is None:
                yield f"Invalid value for 'content': expected a string, got null. messages.[{n}]"
        elif role not in ("system", "developer", "user"):
            yield f"Invalid value: {role!r}. messages.[{n}].role"
    if waiting:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting)
        )


def _responses(body: Json, _: str) -> Iterator[str]:
    items = body.get("input")
    if isinstance(items, str):
        return
    asked: set[object] = set()
    answered: set[object] = set()
    for item, following in itertools.pairwise((*(items or ()), None)):
        kind = item.get("type", "message")
        call = item.get("call_id")
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            asked.add(call)
        elif kind.endswith("_call_output"):
            if call not in asked and not body.get("previous_response_id"):
                yield f"No tool call found for function call output with call_id {call}."
            if call in answered:
                yield f"Duplicate item found with call_id {call}."
            answered.add(call)
        elif kind == "reasoning":
            sealed = item.get("encrypted_content")
            if sealed is not None and not str(sealed).startswith(SEALED):
                yield "The encrypted content could not be verified."
            if not _follows_reasoning(following):
                yield (
                    f"Item '{item.get('id')}' of type 'reasoning' was provided without its "
                    "required following item."
                )
    for call in asked - answered:
        yield f"No tool output found for function call {call}."


def _follows_reasoning(item: Json | None) -> bool:
    if item is None:
        return False
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")


def _anthropic(body: Json, betas: str) -> Iterator[str]:
    messages = body.get("messages")
    if not messages:
        yield "messages: at least one message is required"
        return
    marks = _count_marks([body.get("system"), body.get("tools"), messages])
    if marks > _MARKS:
        yield f"A maximum of {_MARKS} blocks with cache_control may be provided. Found {marks}."
    turns: list[tuple[str, Blocks]] = []
    for n, message in enumerate(messages):
        role, blocks = message.get("role"), _blocks(message.get("content"))
        if role == "system" and any(name in betas for name in MID_CONVERSATION):
            continue
        if role not in ("user", "assistant"):
            yield f"messages.{n}.role: Input should be 'user' or 'assistant'"
            return
        final = n == len(messages) - 1 and role == "assistant"
        yield from _anthropic_blocks(n, blocks, final=final)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, list(blocks)))
    if turns and turns[0][0] == "assistant":
        yield 'messages: first message must use the "user" role'
    yield from _anthropic_pairs(turns)
    if not bound_name(str(body.get("model"))):
        yield from _anthropic_thinking(turns, body.get("thinking"))


def _anthropic_blocks(n: int, blocks: Blocks, *, final: bool) -> Iterator[str]:
    if not blocks and not final:
        yield (
            f"messages.{n}: all messages must have non-empty content except for the optional "
            "final assistant message"
        )
    for block in blocks:
        inner = block.get("content") if block.get("type") == "tool_result" else None
        for text in (block, *(inner if isinstance(inner, list) else ())):
            if text.get("type") == "text" and not str(text.get("text", "")).strip():
                yield "messages: text content blocks must contain non-whitespace text"
        signed = block.get("signature") == signature(block.get("thinking", ""))
        # A session may change from a model that binds its thinking to one that does not.
        if block.get("type") == "thinking" and not signed and not _SIGNER.genuine(block):
            yield f"messages.{n}.content: Invalid `signature` in `thinking` block"


def _anthropic_pairs(turns: list[tuple[str, Blocks]]) -> Iterator[str]:
    """Report calls and results that do not match, turn by turn."""
    for n, (role, blocks) in enumerate(turns):
        uses = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        results = [b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"]
        if role == "assistant" and uses:
            if len(set(uses)) < len(uses):
                yield f"messages.{n}: `tool_use` ids must be unique"
            following = turns[n + 1][1] if n + 1 < len(turns) else []
            answers = {b.get("tool_use_id") for b in following if b.get("type") == "tool_result"}
            missing = [use for use in uses if use not in answers]
            if missing:
                yield (
                    f"messages.{n}: `tool_use` ids were found without `tool_result` blocks "
                    f"immediately after: {', '.join(map(str, missing))}. Each `tool_use` block "
                    "must have a corresponding `tool_result` block in the next message."
                )
        if role == "user" and results:
            before = {b.get("id") for b in turns[n - 1][1]} if n else set()
            if any(result not in before for result in results):
                yield (
                    f"messages.{n}: unexpected `tool_use_id` found in `tool_result` blocks. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the "
                    "previous message."
                )
            if any(block.get("type") != "tool_result" for block in blocks[: len(results)]):
                yield f"messages.{n}: `tool_result` blocks must come first in a message"


def _anthropic_thinking(turns: list[tuple[str, Blocks]], setting: object) -> Iterator[str]:
    """Report a current loop of tool calls that lost its first thought."""
    if not isinstance(setting, dict) or setting.get("type") != "enabled":
        return
    for n in range(len(turns) - 1, -1, -1):
        role, blocks = turns[n]
        kinds = [block.get("type") for block in blocks]
        if role == "user" and "tool_result" not in kinds:
            return
        thought = kinds[:1] and kinds[0] in ("thinking", "redacted_thinking")
        if role == "assistant" and "tool_use" in kinds and not thought:
            yield (
                f"messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{kinds[0]}`."
            )


def _gemini(body: Json, _: str) -> Iterator[str]:
    contents = body.get("contents")
    if not contents:
        yield "* GenerateContentRequest.contents: contents is not specified"
        return
    calls = 0
    for n, content in enumerate(contents):
        parts = content.get("parts") or []
        if not parts:
            yield f"* GenerateContentRequest.contents[{n}].parts: contents.parts must not be empty."
        answers = sum("functionResponse" in part for part in parts)
        if answers and answers != calls:
            yield (
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn."
            )
        calls = sum("functionCall" in part for part in parts)
        for part in parts:
            sealed = part.get("thoughtSignature")
            if sealed is not None and not str(sealed).startswith("sig-"):
                yield "Thought signature is not valid."


def _blocks(content: object) -> Blocks:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _count_marks(value: Any) -> int:
    if isinstance(value, dict):
        own = 1 if value.get("cache_control") else 0
        return own + sum(_count_marks(inner) for inner in value.values())
    return sum(map(_count_marks, value)) if isinstance(value, list) else 0


_CHECKS: Mapping[Route, Callable[[Json, str], Iterator[str]]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _anthropic,
    "count_tokens": _anthropic,
    "gemini": _gemini,
}
