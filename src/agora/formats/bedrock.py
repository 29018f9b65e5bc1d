"""Bedrock Converse: Anthropic's blocks under names of their own.

A message is read and checked as the Anthropic message with the same content. A cache point, which
is a block in Converse, is a mark on the block before it there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from agora.core.request import Request
from agora.core.tokens import TokenCounter
from agora.formats.anthropic import A6, REMOVED, Anthropic
from agora.formats.base import (
    BodyFields,
    Message,
    ParsedMessage,
    Rule,
    RuleViolation,
    ShapeError,
    as_list,
    as_object,
    blocks_at,
    list_of_messages,
    object_at,
    to_json,
)

_ROLES = ("user", "assistant")
_MEDIA = ("image", "document", "video", "audio")
_HARMLESS = ("citationsContent", "image", "document")
_BLOCKS = frozenset(
    {
        *("text", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent"),
        *("image", "document", "video", "citationsContent"),
    }
)
"""Fields that name a Converse block, which has no `type`."""
_ONLY_HERE = ("toolConfig", "inferenceConfig", "additionalModelRequestFields", "modelId")

B2 = Rule(
    "B2",
    "messages.{n}.content: Conversation blocks and tool result blocks cannot be provided in the"
    " same turn.",
    "aws-samples/bedrock-chat",
    strict=True,
)
B5 = Rule(
    "B5",
    "A conversation must alternate between user and assistant roles.",
    "the Converse API's reference",
)
B11 = Rule(
    "B11",
    "Cache point cannot be inserted after reasoning block. Please remove the invalid cache point"
    " and try again.",
    "public threads on prompt caching with reasoning",
    strict=True,
)


def _thinks(body: Mapping[str, Any]) -> bool | None:
    more = as_object(body.get("additionalModelRequestFields"))
    setting = more.get("thinking", more.get("reasoning_config"))
    return setting.get("type") != "disabled" if isinstance(setting, dict) else None


class Bedrock(Anthropic):
    """The `messages` of Converse."""

    name = "bedrock"
    fields = BodyFields(
        messages="messages",
        system=("system",),
        tools=("toolConfig",),
        model="modelId",
        thinks=_thinks,
    )
    rules: ClassVar[tuple[Rule, ...]] = (*Anthropic.rules, B2, B5, B11)
    harmless_blocks = frozenset(_HARMLESS)

    # Recognition

    def matches_part(self, part: Message) -> bool:
        return "type" not in part and not _BLOCKS.isdisjoint(part)

    def matches_body(self, body: Mapping[str, Any]) -> bool:
        if "messages" not in body:
            return False
        if any(name in body for name in _ONLY_HERE):
            return True
        blocks = as_list(body.get("system"))
        return any(isinstance(block, dict) and "type" not in block for block in blocks)

    # Messages

    def call_ids(self, message: Message) -> list[str]:
        return super().call_ids(_to_anthropic(message))

    def result_ids(self, message: Message) -> list[str]:
        return super().result_ids(_to_anthropic(message))

    def user_message(self, text: str) -> Message:
        return {"role": "user", "content": [{"text": text}]}

    def step_messages(
        self, call_id: str, name: str, arguments: Mapping[str, Any], result: str
    ) -> list[Message]:
        call = {"toolUseId": call_id, "name": name, "input": arguments}
        output = {"toolUseId": call_id, "content": [{"text": result}]}
        return [
            {"role": "assistant", "content": [{"toolUse": call}]},
            {"role": "user", "content": [{"toolResult": output}]},
        ]

    def mark_for_cache(self, message: Message) -> Message:
        return self.with_cache_mark(message, {"cachePoint": {"type": "default"}}) or message

    def answer(self, body: Mapping[str, Any]) -> list[Any] | None:
        message = as_object(as_object(body.get("output")).get("message"))
        return [message] if isinstance(message.get("content"), list) else None

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Message:
        spec = {"name": name, "description": description, "inputSchema": {"json": schema}}
        return {"toolSpec": spec}

    # Thinking

    def count_thinking(self, message: Message) -> int:
        return sum(map(_is_reasoning, as_list(message.get("content"))))

    def without_thinking(self, message: Message) -> Message:
        content = as_list(message.get("content"))
        rest = [block for block in content if not _is_reasoning(block)]
        if len(rest) == len(content):
            return message
        if all(isinstance(block, dict) and "cachePoint" in block for block in rest):
            rest = [{"text": REMOVED}, *rest]
        return {**message, "content": rest}

    # Reading

    def read_message(self, message: Message, position: int, counter: TokenCounter) -> ParsedMessage:
        return super().read_message(_to_anthropic(message), position, counter)

    # Writing

    def is_result(self, block: Message) -> bool:
        return "toolResult" in block

    def text_block(self, text: str) -> Message:
        return {"text": text}

    def append_to_result(self, block: Message, text: str) -> Message:
        result = block["toolResult"]
        content = [*result.get("content", ()), {"text": text}]
        return {**block, "toolResult": {**result, "content": content}}

    def replace_result(self, block: Message, note: str) -> Message:
        return {**block, "toolResult": {**block["toolResult"], "content": [{"text": note}]}}

    def cache_mark(self, message: Message) -> object:
        points = [block for block in message["content"] if "cachePoint" in block]
        return points[-1] if points else None

    def with_cache_mark(self, message: Message, mark: object) -> Message | None:
        """Return a message with a cache point at its end.

        After most documents Bedrock refuses one, so there it is lost.
        """
        content = message["content"]
        if not content[-1].keys().isdisjoint(("cachePoint", "document")):
            return message
        return {**message, "content": [*content, mark]}

    # Checking

    def check(self, request: Request, before: object) -> Iterator[RuleViolation]:
        messages = list_of_messages(request.messages, "messages")
        yield from _check_turns(messages)
        tools = as_list(as_object(request.tools).get("tools"))
        as_anthropic = replace(
            request,
            messages=[_to_anthropic(message) for message in messages],
            system=_marked_blocks(as_list(request.system), agent=False) or None,
            tools=_marked_blocks(tools, agent=False),
        )
        if isinstance(before, list):
            before = [_to_anthropic(message) for message in before if isinstance(message, dict)]
        for violation in super().check(as_anthropic, before):
            # The place of results in their message is Anthropic's rule, not Converse's.
            if violation.code != A6.code:
                yield violation


def _check_turns(messages: Sequence[Any]) -> Iterator[RuleViolation]:
    previous = None
    for n, item in enumerate(messages):
        message = object_at(item, n, "messages.{n}")
        role = message.get("role")
        if role not in _ROLES:
            raise ShapeError(n, "messages.{n}.role", role, "one of user, assistant")
        content = message.get("content")
        if not isinstance(content, list):
            raise ShapeError(n, "messages.{n}.content", content, "an array of blocks")
        blocks = blocks_at(content, n, "messages.{n}.content")
        if role == previous:
            yield B5.at(n)
        previous = role
        after_reasoning = has_text = has_results = False
        for block in blocks:
            if "toolResult" in block:
                has_results = role == "user"
                _check_result(n, as_object(block["toolResult"]))
            elif "cachePoint" in block:
                if after_reasoning:
                    yield B11.at(n)
            elif role == "user":
                has_text = True
            after_reasoning = "reasoningContent" in block
        if has_text and has_results:
            yield B2.at(n)


def _check_result(n: int, result: Message) -> None:
    where = "messages.{n}.content.toolResult.content"
    if not isinstance(result.get("content", []), list):
        raise ShapeError(n, where, result["content"], "an array of blocks")
    blocks_at(result.get("content", []), n, where)


def _to_anthropic(message: Message) -> Message:
    """Return a Converse message as the Anthropic message with the same content."""
    agent = message.get("role") == "assistant"
    return {**message, "content": _marked_blocks(as_list(message.get("content")), agent=agent)}


def _marked_blocks(blocks: Sequence[Any], *, agent: bool) -> list[Message]:
    """Return Anthropic's blocks, each cache point a mark on the block before it."""
    out: list[Message] = []
    for block in blocks:
        if not isinstance(block, dict):
            out.append({})
        elif "cachePoint" not in block:
            out.append(_block(block, agent=agent))
        elif out:
            out[-1]["cache_control"] = block["cachePoint"]
    return out


def _block(block: Message, *, agent: bool) -> Message:
    if "text" in block:
        return {"type": "text", "text": block["text"]}
    if "toolUse" in block:
        use = as_object(block["toolUse"])
        kind = "server_tool_use" if use.get("type") == "server_tool_use" else "tool_use"
        fields = {"name": use.get("name", "tool"), "input": use.get("input", {})}
        return {"type": kind, "id": use.get("toolUseId"), **fields}
    if "toolResult" in block:
        result = as_object(block["toolResult"])
        if agent:
            return {"type": "server_tool_result", "tool_use_id": result.get("toolUseId")}
        content = [_result_part(as_object(part)) for part in as_list(result.get("content"))]
        fields = {"tool_use_id": result.get("toolUseId"), "content": content}
        return {"type": "tool_result", "is_error": result.get("status") == "error", **fields}
    if "reasoningContent" in block:
        reasoning = as_object(block["reasoningContent"])
        if reasoning.get("redactedContent") is not None:
            return {"type": "redacted_thinking", "data": reasoning["redactedContent"]}
        shown = as_object(reasoning.get("reasoningText"))
        signature = shown.get("signature")
        return {"type": "thinking", "thinking": shown.get("text"), "signature": signature}
    return _other(block)


def _result_part(part: Message) -> Message:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if "json" in part:
        return {"type": "text", "text": to_json(part["json"])}
    if "searchResult" in part:
        return {"type": "search_result", **part}
    return _other(part)


def _other(block: Message) -> Message:
    """Return a block under its field as the type; videos and sounds count as documents."""
    kind = next(iter(block), "")
    if kind in _MEDIA:
        return {"type": "image" if kind == "image" else "document"}
    return {"type": kind, **block}


def _is_reasoning(block: object) -> bool:
    return isinstance(block, dict) and "reasoningContent" in block
