"""Anthropic Messages: content blocks, results inside user messages, signed thinking.

Messages of one role in a row are read as one message, as the API reads them. The API also reads a
whole tool loop as one assistant message, so everything since the user last spoke counts as the
latest one. Models with manual thinking want its thinking back unchanged. Models that bind thinking
to the prefix check that nothing before a block has changed, and that no block is missing between
others.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import CALL_TOKENS, MESSAGE_TOKENS, TokenCounter
from agora.core.trajectory import Call
from agora.formats.base import (
    BodyFields,
    Message,
    MessageRole,
    Parsed,
    ParsedMessage,
    Rendered,
    Rule,
    RuleViolation,
    ShapeError,
    as_list,
    as_object,
    blocks_at,
    is_blank,
    is_text,
    list_of_messages,
    object_at,
    sealed_tokens,
    text_at,
    texts_of,
    thinking_setting,
    to_json,
)
from agora.formats.message_format import MEDIA_TOKENS, MessageFormat, message_of_user
from agora.formats.render import append_text, move_cache_marks

REMOVED = "[thinking removed]"
"""The text of a message that had nothing but thinking: it may not be empty."""
_THINKING = frozenset({"thinking", "redacted_thinking"})
_SIGNED_FIELDS = ("type", "thinking", "signature", "data")
_ROLES = {"assistant": MessageRole.AGENT, "user": MessageRole.USER}
_RESULT_PARTS = frozenset({"text", "image", "document", "search_result"})
_COMPACTION = "compaction"
"""A summary that the provider wrote of all before it. It is sent back unchanged, and may be first
in the messages: the API leaves out all before it at a threshold, the client on demand."""
_OWN_BLOCKS = frozenset(
    {"tool_use", "tool_result", "server_tool_use", "document", _COMPACTION, *_THINKING}
)
_MOST_MARKS = 4
_SYSTEM = -1

A1 = Rule(
    "A1",
    "messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}."
    " Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    "claude-code#1577, OpenHands#7512",
)
A2 = Rule(
    "A2",
    "messages.{n}.content.{m}: unexpected `tool_use_id` found in `tool_result` blocks: {id}."
    " Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
    "claude-code#13460",
)
A3 = Rule(
    "A3",
    "messages.{n}.content.{m}: unexpected `tool_use_id` found in `{kind}` blocks: {id}."
    " Each `{kind}` block must have a corresponding `{call}` block before it.",
    "claude-code#64383",
)
A6 = Rule(
    "A6",
    "messages.{n}: Did not find {count} tool_result block(s) at the beginning of this message."
    " Messages following tool_use blocks must begin with a matching number of tool_result blocks.",
    "langchain-aws#451",
)
A7 = Rule("A7", 'messages: first message must use the "user" role', "many")
A8 = Rule(
    "A8",
    'messages: roles must alternate between "user" and "assistant", but found multiple "{role}"'
    " roles in a row",
    "many; the API now merges them",
    strict=True,
)
A11 = Rule("A11", "messages: text content blocks must be non-empty", "claude-code#59812, #23440")
A12 = Rule(
    "A12",
    "A maximum of 4 blocks with cache_control may be provided. Found {count}.",
    "Anthropic.SDK#50, GCMP#83",
)
A14 = Rule(
    "A14",
    "messages.{n}.content.{m}: `thinking` or `redacted_thinking` blocks in the latest assistant"
    " message cannot be modified. These blocks must remain as they were in the original response.",
    "claude-code#63203",
)
A15 = Rule(
    "A15",
    "messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`."
    " When `thinking` is enabled, a final `assistant` message must start with a thinking block"
    " (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
    "opencode#3077",
)
A21 = Rule(
    "A21",
    "messages.{n}: a `system` message must follow a `user` message and be last or followed by an"
    " `assistant` message",
    "the API's reference; the placement rules have changed before",
    strict=True,
)
A22 = Rule(
    "A22",
    "messages.{n}.content.{m}: Invalid `signature` in `thinking` block. The block is bound to a"
    " different conversation. Remove the block, or set"
    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
    "the API's page on prefix checks, pydantic-ai#7984",
)


class Anthropic(MessageFormat):
    """The `messages` of the Messages API.

    Once there is signed thinking, the messages of steps stay: only their results are replaced.
    Models that bind thinking lose it at an edit, so there a step may be removed.
    """

    name = "anthropic"
    fields = BodyFields(messages="messages", system=("system",), thinks=thinking_setting)
    rules: ClassVar[tuple[Rule, ...]] = (A1, A2, A3, A6, A7, A8, A11, A12, A14, A15, A21, A22)
    signs_thinking = True
    keeps_signed = True
    harmless_blocks: ClassVar[frozenset[str]] = frozenset()
    """Other blocks of the agent with which a step may be removed."""

    # Recognition

    def matches_part(self, part: Message) -> bool:
        kind = part.get("type")
        return kind in _OWN_BLOCKS or (kind == "image" and "source" in part)

    # Messages

    def call_ids(self, message: Message) -> list[str]:
        blocks = map(as_object, as_list(message.get("content")))
        return [str(b["id"]) for b in blocks if b.get("type") == "tool_use" and b.get("id")]

    def result_ids(self, message: Message) -> list[str]:
        blocks = map(as_object, as_list(message.get("content")))
        return [str(b["tool_use_id"]) for b in blocks if _is_result(b) and b.get("tool_use_id")]

    def step_messages(
        self, call_id: str, name: str, arguments: Mapping[str, Any], result: str
    ) -> list[Message]:
        call = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        output = {"type": "tool_result", "tool_use_id": call_id, "content": result}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [output]}]

    def mark_for_cache(self, message: Message) -> Message:
        return self.with_cache_mark(message, {"type": "ephemeral"}) or message

    def answer(self, body: Mapping[str, Any]) -> list[Any] | None:
        content = body.get("content")
        if not isinstance(content, list) or body.get("role") != "assistant":
            return None
        return [{"role": "assistant", "content": content}] if content else []

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Message:
        return {"name": name, "description": description, "input_schema": schema}

    # Thinking

    def count_thinking(self, message: Message) -> int:
        return sum(map(is_thinking, as_list(message.get("content"))))

    def without_thinking(self, message: Message) -> Message:
        content = message.get("content")
        if not isinstance(content, list) or not any(map(is_thinking, content)):
            return message
        rest = [block for block in content if not is_thinking(block)]
        return {**message, "content": rest or [{"type": "text", "text": REMOVED}]}

    # Reading

    def read_message(self, message: Message, position: int, counter: TokenCounter) -> ParsedMessage:
        content = message["content"]
        role = message["role"]
        if isinstance(content, str):
            tokens = MESSAGE_TOKENS + counter.count(content)
            return ParsedMessage(_ROLES.get(role, MessageRole.INLINE_SYSTEM), tokens, content)
        if role == "assistant":
            return self._read_agent(content, counter)
        parsed = _read_user(content, counter)
        if role != "user":
            parsed.role = MessageRole.INLINE_SYSTEM
        return parsed

    def _read_agent(self, content: list[Message], counter: TokenCounter) -> ParsedMessage:
        tokens = MESSAGE_TOKENS
        thinking = 0
        texts, thoughts, calls = [], [], []
        keep_reason = ""
        signed = summary = False
        served: set[str] = set()
        """Calls that the provider answers itself, while one half of them is missing."""
        for block in content:
            kind = block.get("type", "")
            if kind == "text":
                texts.append(block["text"])
                tokens += counter.count(block["text"])
            elif kind == "tool_use":
                call = Call(str(block.get("name", "tool")), to_json(block.get("input", {})))
                calls.append((str(block["id"]), call))
                tokens += CALL_TOKENS + counter.count(call.name) + counter.count(call.arguments)
            elif kind in _THINKING:
                signed = True
                thought = str(block.get("thinking") or "")
                thoughts.append(thought)
                thinking += counter.count(thought) + sealed_tokens(block.get("data"))
            else:
                tokens += _block_tokens(block, counter)
                if kind.endswith("_tool_result"):
                    served ^= {str(block.get("tool_use_id"))}
                elif kind.endswith("_tool_use"):
                    served ^= {str(block.get("id"))}
                elif kind not in self.harmless_blocks:
                    keep_reason = f"holds a {kind or 'nameless'} block"
                if kind == _COMPACTION:
                    summary = True
                    texts.append(str(block.get("content") or ""))
        if served:
            keep_reason = keep_reason or "holds half of a call that the provider answers"
        return ParsedMessage(
            MessageRole.AGENT,
            tokens + thinking,
            "\n".join(texts),
            "\n".join(thoughts),
            tuple(calls),
            keep_reason=keep_reason,
            thinking_tokens=thinking,
            signed=signed,
            summary=summary,
        )

    # Writing

    def accepts_marker(self, message: Message) -> bool:
        return message.get("role") == "user" and isinstance(message.get("content"), str | list)

    def is_user_text(self, message: Message) -> bool:
        content = message["content"]
        return isinstance(content, str) or not any(map(self.is_result, content))

    def append_text(self, message: Message, text: str) -> Message:
        """Return the message with `text` inside its last tool result, or after its content.

        Never as a block next to a tool result: there it would be the user's.
        """
        content = message["content"]
        blocks = list(content) if isinstance(content, list) else []
        for at in range(len(blocks) - 1, -1, -1):
            if self.is_result(blocks[at]):
                blocks[at] = self.append_to_result(blocks[at], text)
                return {**message, "content": blocks}
        if isinstance(content, str):
            return {**message, "content": append_text(content, text, "text")}
        return {**message, "content": [*blocks, self.text_block(text)]}

    def result_count(self, message: Message) -> int:
        content = message["content"]
        return 1 if isinstance(content, str) else sum(map(self.is_result, content)) or 1

    def replace_results(self, message: Message, notes: list[str]) -> Message:
        content = message["content"]
        if isinstance(content, str):
            return {**message, "content": notes[0]}
        if not any(map(self.is_result, content)):
            # The observation of an agent that acts by text: the whole message is the result.
            note: Message = {**message, "content": [self.text_block(notes[0])]}
            mark = self.cache_mark(message)
            return note if mark is None else self.with_cache_mark(note, mark) or note
        texts = iter(notes)
        blocks = [
            self.replace_result(block, next(texts)) if self.is_result(block) else block
            for block in content
        ]
        return {**message, "content": blocks}

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the messages without the removed steps, the caller's cache marks moved up."""
        rendered = super().render(parsed, forms, markers)
        return move_cache_marks(
            rendered, parsed, forms, mark_of=self.cache_mark, with_mark=self.with_cache_mark
        )

    # Blocks, which Bedrock writes in its own way

    def is_result(self, block: Message) -> bool:
        """Return True if a block is the result of a call."""
        return block.get("type") == "tool_result"

    def text_block(self, text: str) -> Message:
        """Return a block with a text."""
        return {"type": "text", "text": text}

    def append_to_result(self, block: Message, text: str) -> Message:
        """Return a result with `text` after it, in its only block where that is text.

        So it is the same bytes for a framework that writes each result as one text.
        """
        content = block.get("content")
        if isinstance(content, list) and len(content) == 1 and is_text(content[0]):
            only = content[0]
            longer = {**only, "text": append_text(only["text"], text, "text")}
            return {**block, "content": [longer]}
        empty: object = [] if isinstance(content, list) else ""
        return {**block, "content": append_text(content or empty, text, "text")}

    def replace_result(self, block: Message, note: str) -> Message:
        """Return a result with a note for its content."""
        parts = isinstance(block.get("content"), list)
        return {**block, "content": [self.text_block(note)] if parts else note}

    def cache_mark(self, message: Message) -> object:
        """Return the last cache mark of a message, None without one."""
        marks = [
            block["cache_control"]
            for block in as_list(message["content"])
            if block.get("cache_control") is not None
        ]
        return marks[-1] if marks else None

    def with_cache_mark(self, message: Message, mark: object) -> Message | None:
        """Return a message with a cache mark at its end; None for system text between turns."""
        if message["role"] not in _ROLES:
            return None
        content = message["content"]
        if isinstance(content, str):
            content = [self.text_block(content)]
        if "cache_control" in content[-1]:
            return message
        return {**message, "content": [*content[:-1], {**content[-1], "cache_control": mark}]}

    # Checking

    def check(self, request: Request, before: object) -> Iterator[RuleViolation]:
        messages = list_of_messages(request.messages, "messages")
        check = _Check(messages)
        check.read_preamble(request)
        for n in range(len(messages)):
            check.read_message(n)
        check.close()
        yield from check.violations
        yield from _count_marks(messages, request)
        yield from _check_thinking(messages, request, before)


def is_thinking(block: object) -> bool:
    """Return True if a content block is a model's signed thinking."""
    return isinstance(block, dict) and block.get("type") in _THINKING


def _read_user(content: list[Message], counter: TokenCounter) -> ParsedMessage:
    tokens, user_tokens = MESSAGE_TOKENS, 0
    answers: list[str] = []
    results: list[tuple[str, bool]] = []
    others: list[Message] = []
    keep_reason = ""
    for block in content:
        if _is_result(block):
            answers.append(str(block["tool_use_id"]))
            text, cost, reason = _read_result(block.get("content"), counter)
            results.append((text, bool(block.get("is_error"))))
            tokens += cost
            keep_reason = keep_reason or reason
        else:
            others.append(block)
            if "text" not in block:
                user_tokens += _block_tokens(block, counter)
    parsed = message_of_user(others, results, tuple(answers), tokens, user_tokens, counter)
    parsed.keep_reason = keep_reason
    return parsed


def _read_result(content: object, counter: TokenCounter) -> tuple[str, int, str]:
    """Return a result's text, its tokens, and the reason never to replace it, if any."""
    if isinstance(content, str):
        return content, counter.count(content), ""
    if not isinstance(content, list):
        return "", 0, ""
    text = texts_of(content)
    others = [block for block in content if "text" not in block]
    tokens = counter.count(text) + sum(_block_tokens(block, counter) for block in others)
    odd = [block for block in content if block.get("type") not in _RESULT_PARTS]
    return text, tokens, f"holds a {odd[0].get('type')} block" if odd else ""


def _block_tokens(block: Message, counter: TokenCounter) -> int:
    """Return the tokens of a block without text: media a flat number, others by their JSON."""
    tokens = MEDIA_TOKENS.get(str(block.get("type")))
    return counter.count(to_json(block)) if tokens is None else tokens


def _is_result(block: Message) -> bool:
    return block.get("type") == "tool_result"


class _Check:
    """Reads messages one by one and collects the rules that they break."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self.violations: list[RuleViolation] = []
        self._messages = messages
        self._role: object = None
        self._calls: dict[str, int] = {}
        """The position of each call of the latest assistant message."""
        self._answered: set[str] = set()
        self._late: list[int] = []
        """The positions of results that come after something else."""
        self._spoken = False
        """True if the user message being read holds more than results."""
        self._served: set[tuple[str, object]] = set()
        """The calls that the provider answers itself."""

    def read_preamble(self, request: Request) -> None:
        if request.system is None or isinstance(request.system, str):
            return
        for block in blocks_at(request.system, _SYSTEM, "system"):
            if "text" in block:
                self._check_text(block, _SYSTEM, "system.text")

    def read_message(self, n: int) -> None:
        message = object_at(self._messages[n], n, "messages.{n}")
        role = text_at(message.get("role"), n, "messages.{n}.role")
        if role in _ROLES:
            if role == self._role:
                self.violations.append(A8.at(n, role=role))
            elif role == "assistant":
                if n == 0 and not _is_summary(message):
                    self.violations.append(A7.at(n))
                self.close()
            else:
                self._spoken = False
            self._role = role
        else:
            self._check_place(n)
        spoken = self._spoken
        is_final = role == "assistant" and n == len(self._messages) - 1
        self._read_content(n, message.get("content"), role, is_final=is_final)
        if role not in _ROLES:
            # System text between turns is not a turn: calls and results pair across it.
            self._spoken = spoken

    def _check_place(self, n: int) -> None:
        before, after = (
            as_object(self._messages[at]).get("role") if 0 <= at < len(self._messages) else None
            for at in (n - 1, n + 1)
        )
        waits = before == "assistant" and self._calls
        if before not in _ROLES or waits or after not in ("assistant", None):
            self.violations.append(A21.at(n))

    def _read_content(self, n: int, content: object, role: object, *, is_final: bool) -> None:
        if isinstance(content, str):
            self._spoken = True
            if not is_final and is_blank(content):
                self.violations.append(A11.at(n))
            return
        blocks = blocks_at(content, n, "messages.{n}.content")
        if not blocks and not is_final:
            self.violations.append(A11.at(n))
        for m, block in enumerate(blocks):
            kind = text_at(block.get("type"), n, "messages.{n}.content.type")
            if kind == "tool_result":
                self._read_result(n, m, block, role)
                continue
            self._spoken = True
            if kind == "text":
                self._check_text(block, n, "messages.{n}.content.text")
            elif kind == "tool_use":
                call_id = text_at(block.get("id"), n, "messages.{n}.content.id")
                if role != "assistant":
                    raise ShapeError(n, "messages.{n}.role", role, "assistant, for a call,")
                self._calls.setdefault(call_id, n)
            elif kind.endswith("_tool_use"):
                self._served.add((_served_by(kind), _text(block.get("id"))))
            elif kind.endswith("_tool_result"):
                served_id, call = _text(block.get("tool_use_id")), _served_by(kind)
                if (call, served_id) not in self._served:
                    self.violations.append(A3.at(n, m=m, kind=kind, id=served_id, call=call))

    def _read_result(self, n: int, m: int, block: Message, role: object) -> None:
        content = block.get("content")
        if content is not None and not isinstance(content, str):
            blocks_at(content, n, "messages.{n}.content.content")
        if role != "user":
            raise ShapeError(n, "messages.{n}.role", role, "user, for a result,")
        call_id = text_at(block.get("tool_use_id"), n, "messages.{n}.content.tool_use_id")
        if call_id not in self._calls:
            self.violations.append(A2.at(n, m=m, id=call_id))
        else:
            self._answered.add(call_id)
            if self._spoken:
                self._late.append(n)

    def _check_text(self, block: Message, n: int, where: str) -> None:
        if is_blank(text_at(block.get("text"), n, where)):
            self.violations.append(A11.at(n))

    def close(self) -> None:
        """Report the results that the latest calls still miss, and forget the calls."""
        if self._late:
            self.violations.append(A6.at(self._late[0], count=len(self._late)))
        missing: dict[int, list[str]] = {}
        for call_id, n in self._calls.items():
            if call_id not in self._answered:
                missing.setdefault(n, []).append(call_id)
        self.violations += [A1.at(n, ids=", ".join(ids)) for n, ids in missing.items()]
        self._calls, self._answered, self._late = {}, set(), []


def _is_summary(message: Message) -> bool:
    blocks = map(as_object, as_list(message.get("content")))
    return any(block.get("type") == _COMPACTION for block in blocks)


def _served_by(kind: str) -> str:
    """Return the type of the calls that a block belongs to."""
    return "mcp_tool_use" if kind.startswith("mcp_tool_") else "server_tool_use"


def _count_marks(messages: list[Any], request: Request) -> Iterator[RuleViolation]:
    """Yield A12 at the first message with a mark over the limit."""
    marks = sum(map(_is_marked, as_list(request.tools)))
    marks += sum(map(_is_marked, as_list(request.system)))
    overflow = 0 if marks <= _MOST_MARKS else _SYSTEM
    for n, message in enumerate(messages):
        content = message.get("content")
        if type(content) is list:
            for block in content:
                marks += block.get("cache_control") is not None
                inner = block.get("content")
                if type(inner) is list:
                    marks += sum(map(_is_marked, inner))
        if marks <= _MOST_MARKS:
            overflow = n + 1
    if marks > _MOST_MARKS:
        yield A12.at(overflow, count=marks)


def _is_marked(block: object) -> bool:
    return isinstance(block, dict) and block.get("cache_control") is not None


class _Thinking(NamedTuple):
    """A thinking block: its place, and the fields that may not change."""

    message: int
    block: int
    signed: tuple[object, ...]


def _check_thinking(
    messages: list[Any], request: Request, before: object
) -> Iterator[RuleViolation]:
    bound = request.is_bound
    if request.thinking and not bound:
        yield from _check_lead(messages)
    if isinstance(before, list):
        then, now = _thinking_in(before), _thinking_in(messages)
        if bound:
            yield from _check_bound(then, now, request.edited_at)
        elif then or now:
            yield from _check_unchanged(then, now, _latest(before), messages)


def _latest(messages: list[Any]) -> int:
    """Return where the latest assistant message begins: after the user last spoke."""
    for n in range(len(messages) - 1, -1, -1):
        message = as_object(messages[n])
        content = message.get("content")
        is_results = isinstance(content, list) and all(_is_result(as_object(b)) for b in content)
        if message.get("role") == "user" and not is_results:
            return n + 1
    return 0


def _check_lead(messages: list[Any]) -> Iterator[RuleViolation]:
    for n in range(_latest(messages), len(messages)):
        content = messages[n].get("content")
        if messages[n].get("role") == "assistant" and content:
            lead = "text" if isinstance(content, str) else content[0].get("type")
            if lead not in _THINKING:
                yield A15.at(n, found=lead)
            return


def _check_bound(
    then: list[_Thinking], now: list[_Thinking], edited_at: int
) -> Iterator[RuleViolation]:
    """Yield A22 once, at the first thinking after a later change.

    The remaining blocks have to be the last of the old ones, none missing in between, and all from
    after the edit, where there was one.
    """
    expected = then[len(then) - len(now) :] if len(now) <= len(then) else []
    for at, block in enumerate(now):
        original = expected[at] if at < len(expected) else None
        if original is None or original.signed != block.signed or original.message < edited_at:
            yield A22.at(block.message, m=block.block)
            return


def _check_unchanged(
    then: list[_Thinking], now: list[_Thinking], latest_then: int, messages: list[Any]
) -> Iterator[RuleViolation]:
    """Yield A14 once, at the thinking nearest to the end that is gone or changed.

    The thinking of the latest assistant message must all be there. Earlier blocks may be
    gone. The latest blocks now have to be among the blocks made then, in the same order.
    """
    latest_now = _latest(messages)
    while then and (then[-1].message >= latest_then or (now and now[-1].message >= latest_now)):
        block = then.pop()
        if now and now[-1].signed == block.signed:
            now.pop()
        elif block.message >= latest_then:
            place = now[-1][:2] if now else (max(len(messages) - 1, 0), 0)
            yield A14.at(place[0], m=place[1])
            return
    if now and now[-1].message >= latest_now:
        yield A14.at(now[-1].message, m=now[-1].block)


def _thinking_in(messages: list[Any]) -> list[_Thinking]:
    return [
        _Thinking(n, m, tuple(_text(block.get(name)) for name in _SIGNED_FIELDS))
        for n, message in enumerate(messages)
        if isinstance(message, dict) and message.get("role") == "assistant"
        for m, block in enumerate(as_list(message.get("content")))
        if isinstance(block, dict) and block.get("type") in _THINKING
    ]


def _text(value: object) -> object:
    return value if isinstance(value, str | bytes) else None
