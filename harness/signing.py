"""A provider's signatures: thinking blocks bound to the prompt under which they were produced.

    signer = Signer()
    block = signer.think(body, "The file is short.")         # a block of the answer to `body`
    verdict = signer.receive(next_body, betas="...")         # how the provider treats it later

The judge of our edits, written from the provider's pages ("Preserved thinking", "Prefix checks on
thinking blocks"), the types of its SDK (anthropic 2.8.0) and public reports, and apart from
`agora.formats.rules`. It keeps no state: a signature carries, under a MAC, what the check needs.

Documented, and modelled here:

- `system`, `tools` and every message before a block must be what they were. If not, that block and
  every later one is invalid; blocks produced after the change are valid.
- Blocks may be left out from the start of the conversation on. A block left out between others,
  or moved, makes the following ones invalid.
- Moving `cache_control`, or another `effort`, changes nothing that is compared.
- `thinking.block_binding` needs its beta. So does `input_transformations`: with the beta it is in
  every answer, be it empty; without it blocks are dropped all the same and nothing is reported.

Assumed, since no page that we could read says it:

- What else counts as the same: a text as a string or as one block, a field that is null or
  missing, the order of an object's keys, two assistant messages in a row or their blocks in one.
- A message that held nothing but thinking may be left out with it.
- A block that was not sent when a later one was produced may not be sent before it now.
- The nonce in Claude Code's billing line is not compared: the provider says that Claude Code has
  nothing to change.
- `anthropic_beta` and `thinking` in `additionalModelRequestFields` do on Bedrock's Converse what
  the header and the field do on the API.

Not modelled: the binding to a model, an organization or an end user, server-side compaction and
context editing, the bytes behind a URL. A block of any model is read as one of the requested model.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Json = dict[str, Any]
Format = Literal["anthropic", "bedrock"]
Outcome = Literal["error", "drop", "record"]
Place = tuple[int, int]
"""Where a block is in a request: its message, and its place within the message's content."""

BETA = "thinking-binding-controls-2026-08-01"
BOUND: Mapping[str, Outcome] = MappingProxyType(
    {
        "claude-fable-5-1": "error",
        "claude-fable-5-2": "error",
        "claude-mythos-5-2": "error",
        "claude-opus-5-5": "drop",
        "claude-sonnet-5-5": "drop",
        "claude-haiku-5-5": "drop",
        "claude-mythos-5-1": "record",
    }
)
"""The models that bind their thinking, and the effect of a failed check if the request sets none.

The list of models is documented, and that Mythos 5.1 records without checking. Which of the others
refuse and which drop is an assumption: the pages only say that it depends on the model."""

MANUAL = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
    '"output_config.effort" to control thinking behavior.'
)
"""What refuses manual thinking: read in public reports on the models before these, and assumed of
these, on which adaptive thinking is documented as the only mode."""
_EXTRA = "Extra inputs are not permitted"
_UNREADABLE = {
    "thinking": "Invalid `signature` in `thinking` block",
    "redacted_thinking": "Invalid `data` in `redacted_thinking` block",
}
_ELSEWHERE = (
    ". The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
_NEEDS_BETA = f" That setting requires the `{BETA}` value in the `anthropic-beta` header."
# The two endings that public reports quote; what the API says of other changes we have not seen.
_SYSTEM_DIFFERS = " The `system` prompt differs from the one this block was created with."
_MISSING = (
    " The `thinking` block that preceded this one when it was created is missing from this request."
)
_BILLING = "x-anthropic-billing-header"
_NONCE = re.compile(r"\bcch=[0-9a-f]+")
_POINT = re.compile(r"(?<=\d)\.(?=\d)")


_ID = 8
_MAC = 16
_DIGEST = 16
_NONE = bytes(_ID)
_HEAD = struct.Struct(f"!{_DIGEST}s{_DIGEST}s{_ID}sI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The provider's treatment of the thinking in a request."""

    refusal: str = ""
    """The text of its 400; empty if it accepts."""
    kept: tuple[Place, ...] = ()
    """The valid blocks."""
    dropped: tuple[Place, ...] = ()
    """The blocks that it takes out before the model reads the request."""
    invalid: tuple[Place, ...] = ()
    """The blocks that fail the check, whether the provider refuses, drops or records them."""
    transformations: tuple[Json, ...] = ()
    """The value of `input_transformations` in the answer."""
    reports: bool = False
    """True if the answer has `input_transformations` at all."""


@dataclass(frozen=True, slots=True)
class _Seal:
    """The content of a signature besides its MAC.

    The chain of the blocks before is held by its length and its last id alone. That is enough: the
    last one was valid when this block was produced and has to be valid now, so what came before it
    then and what comes before it now are both ends of one and the same list, and the shorter is an
    end of the longer.
    """

    system: bytes
    prefix: bytes
    before: bytes
    """The id of the thinking block before this one; zeros where it was the first."""
    count: int
    """How many blocks were before it, as accepted: left out and dropped ones are not counted."""
    dropped: tuple[bytes, ...] = ()
    """The ids of the blocks that were dropped from the request that it answers.

    The mark of `drop_block`. Without it, every block after an invalid one would be invalid for
    ever; with it, what was produced after the change is valid, as documented. That the setting has
    to come with every later request of the conversation needs no rule of its own: the old blocks
    are still sent, and fail by themselves as soon as it is missing.
    """

    def pack(self) -> bytes:
        head = _HEAD.pack(self.system, self.prefix, self.before, self.count)
        return head + b"".join(self.dropped)

    @staticmethod
    def unpack(packed: bytes) -> "_Seal":
        system, prefix, before, count = _HEAD.unpack_from(packed)
        rest = range(_HEAD.size, len(packed), _ID)
        return _Seal(system, prefix, before, count, tuple(packed[n : n + _ID] for n in rest))


@dataclass(frozen=True, slots=True)
class _Said:
    """The content of a thinking block."""

    kind: Literal["thinking", "redacted_thinking"]
    text: bytes
    signature: bytes | None
    """None where it is missing, empty where it cannot be read."""

    @property
    def id(self) -> bytes:
        return hashlib.sha256(b"id" + (self.signature or b"")).digest()[:_ID]


@dataclass(frozen=True, slots=True)
class _Thought:
    """A thinking block as it was found in a request."""

    place: Place
    said: _Said
    prefix: bytes
    """The digest of everything before it."""

    @property
    def path(self) -> str:
        return f"messages.{self.place[0]}.content.{self.place[1]}"


@dataclass(slots=True)
class _Chain:
    """The thinking blocks of a request, one after the other."""

    last: bytes = _NONE
    count: int = 0
    dropped: list[bytes] = field(default_factory=list)

    def accept(self, one: bytes) -> None:
        self.last, self.count = one, self.count + 1

    def fits(self, seal: _Seal) -> bool:
        """Return True if a block may follow: none is missing, and no older one was added."""
        follows = self.count == 0 or (self.last == seal.before and self.count <= seal.count)
        return follows and set(self.dropped) <= set(seal.dropped)


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs thinking and checks it when it comes back."""

    outcome: Outcome | None = None
    """The effect of a failed check on every bound model; None looks it up in the table."""
    secret: bytes = b"the secret of a provider that signs"

    def receive(
        self,
        body: Mapping[str, Any],
        *,
        betas: str = "",
        format: Format = "anthropic",
        model: str | None = None,
    ) -> Received:
        """Return the verdict on a request. A request without thinking is accepted."""
        return self._judge(body, betas, format, model)[0]

    def think(
        self,
        body: Mapping[str, Any],
        text: str,
        *,
        format: Format = "anthropic",
        model: str | None = None,
        betas: str = "",
        before: Sequence[Json] = (),
        redacted: bool = False,
    ) -> Json:
        """Return a thinking block of the answer to a request.

        `before` has the earlier blocks of the same answer: texts, calls and other thinking.

        Raises:
            ValueError: the request is refused, so there is no answer.
        """
        verdict, chain, reader = self._judge(body, betas, format, model)
        if verdict.refusal:
            raise ValueError(f"a refused request has no answer: {verdict.refusal}")
        for thought in reader.thoughts_of("assistant", before, len(reader.messages)):
            chain.accept(thought.said.id)
        dropped = tuple(chain.dropped)
        seal = _Seal(reader.system, reader.prefix("assistant"), chain.last, chain.count, dropped)
        packed, said = seal.pack(), text.encode("utf-8", "surrogatepass")
        return _block(format, text, packed + self._mac(packed, said), redacted=redacted)

    def genuine(self, block: Json, *, format: Format = "anthropic") -> bool:
        """Return True if this provider made this thinking block, whatever comes before it."""
        said = _thinking_in(block, format)
        return said is not None and self._open(said) is not None

    def _judge(
        self, body: Mapping[str, Any], betas: str, format: Format, model: str | None
    ) -> "tuple[Received, _Chain, _Reader]":
        """Return the verdict, and the request as accepted and as read."""
        reader, chain = _Reader(body, format), _Chain()
        settings, named = _settings(body, betas, format)
        name = bound_name(model if model is not None else _model_of(body))
        problem = _refused_setting(settings, has_beta=BETA in named, bound=name is not None)
        if problem:
            return Received(refusal=problem), chain, reader
        found: list[tuple[_Thought, _Seal]] = []
        for thought in reader.thoughts():
            seal = self._open(thought.said)
            if seal is None:
                return Received(refusal=_unreadable(thought, format)), chain, reader
            found.append((thought, seal))
        outcome = None if name is None else self._outcome(name, settings)
        verdict = _checked(found, chain, outcome, reader.system, reports=BETA in named)
        return verdict, chain, reader

    def _outcome(self, name: str, settings: Mapping[str, Any]) -> Outcome:
        """Return the effect of a failed check: the request's setting, or else the model's.

        A model that only records does not run the check, so a request cannot ask for more.
        """
        default = self.outcome or BOUND[name]
        if self.outcome is None and default == "record":
            return default
        asked = (settings.get("block_binding") or {}).get("prefix_mismatch_behavior")
        return default if asked is None else "drop" if asked == "drop_block" else "error"

    def _mac(self, packed: bytes, text: bytes) -> bytes:
        return hmac.new(self.secret, packed + text, hashlib.sha256).digest()[:_MAC]

    def _open(self, said: _Said) -> _Seal | None:
        """Return a signature's content, or None if this provider did not make it for the text."""
        raw = said.signature or b""
        more = len(raw) - _HEAD.size - _MAC
        if more < 0 or more % _ID:
            return None
        packed, mac = raw[:-_MAC], raw[-_MAC:]
        genuine = hmac.compare_digest(mac, self._mac(packed, said.text))
        return _Seal.unpack(packed) if genuine else None


def _checked(
    found: Sequence[tuple[_Thought, _Seal]],
    chain: _Chain,
    outcome: Outcome | None,
    system: bytes,
    *,
    reports: bool,
) -> Received:
    """Return the verdict on blocks in their order, and make the chain of those accepted."""
    kept: list[Place] = []
    invalid: list[_Thought] = []
    refusal = ""
    for thought, seal in found:
        same = seal.system == system and seal.prefix == thought.prefix
        if outcome is None or (same and chain.fits(seal)):
            kept.append(thought.place)
            chain.accept(thought.said.id)
            continue
        invalid.append(thought)
        if outcome == "record":
            chain.accept(thought.said.id)
            continue
        chain.dropped.append(thought.said.id)
        if outcome == "error" and not refusal:
            why = _SYSTEM_DIFFERS if seal.system != system else _MISSING if same else ""
            refusal = _mismatch(thought, why, has_beta=reports)
    places = tuple(thought.place for thought in invalid)
    if refusal:
        return Received(refusal=refusal, kept=tuple(kept), invalid=places)
    kind = "thinking_mismatch_allowed" if outcome == "record" else "thinking_dropped"
    reason = "prefix_binding_mismatch"
    entries = [{"type": kind, "path": one.path, "reason": reason} for one in invalid]
    return Received(
        kept=tuple(kept),
        dropped=places if outcome == "drop" else (),
        invalid=places,
        transformations=tuple(entries) if reports else (),
        reports=reports,
    )


def bound_name(model: str) -> str | None:
    """Return the name in the table of a model that is bound, or None.

    Dates, versions and what platforms put around a name do not matter.

    >>> bound_name("us.anthropic.claude-opus-5-5-v1:0"), bound_name("claude-opus-5-20260901")
    ('claude-opus-5-5', None)
    """
    plain = _POINT.sub("-", model.lower())
    for name in BOUND:
        at = plain.find(name)
        if at >= 0 and not plain[at + len(name) : at + len(name) + 1].isdigit():
            return name
    return None


# --- reading a request


class _Reader:
    """Reads a request from its start, and knows the digest of what it has read."""

    def __init__(self, body: Mapping[str, Any], format: Format) -> None:
        self.format = format
        self.messages: Sequence[Json] = body.get("messages") or ()
        tools = body.get("tools") or ()
        if format == "bedrock":
            tools = (body.get("toolConfig") or {}).get("tools") or ()
        said = [_without_nonce(block) for block in _real(_blocks(body.get("system"), format))]
        self.system = hashlib.sha256(_line("system", said)).digest()[:_DIGEST]
        self._read = hashlib.sha256(_line(format, [_plain(tool) for tool in _real(tools)]))
        self._role = ""

    def thoughts(self) -> Iterator[_Thought]:
        """Yield the thinking blocks of all messages, each with what is before it."""
        for n, message in enumerate(self.messages):
            head = {k: v for k, v in message.items() if k != "content" and v is not None}
            role = str(head.get("role"))
            opening = role if set(head) == {"role"} else json.dumps(head, sort_keys=True)
            content = _blocks(message.get("content"), self.format)
            yield from self.thoughts_of(opening, content, n)
            if not content and role != "assistant":
                # An empty message of its own accord, such as one that only sets the effort.
                self._enter(opening)

    def thoughts_of(self, opening: str, content: Sequence[Any], n: int) -> Iterator[_Thought]:
        """Yield the thinking blocks of one message."""
        entered = False
        for m, block in enumerate(content):
            if _is_cache_point(block):
                continue
            said = _thinking_in(block, self.format)
            if said is not None:
                prefix = self._digest() if entered else self.prefix(opening)
                yield _Thought((n, m), said, prefix)
                continue
            if not entered:
                # Only now, so that a message of nothing but thinking leaves no trace.
                self._enter(opening)
                entered = True
            self._read.update(_line("block", _plain(block)))

    def prefix(self, opening: str) -> bytes:
        """Return the digest of what was read, at the start of a message."""
        if self._goes_on(opening):
            return self._digest()
        read = self._read.copy()
        read.update(_line("message", opening))
        return read.digest()[:_DIGEST]

    def _enter(self, opening: str) -> None:
        if not self._goes_on(opening):
            self._read.update(_line("message", opening))
        self._role = opening

    def _goes_on(self, opening: str) -> bool:
        """Return True if a message continues an answer that was paused or begun by the caller."""
        return opening == self._role == "assistant"

    def _digest(self) -> bytes:
        return self._read.digest()[:_DIGEST]


def _blocks(content: object, format: Format) -> list[Any]:
    """Return a content as blocks."""
    if isinstance(content, str):
        said = {"text": content} if format == "bedrock" else {"type": "text", "text": content}
        return [said] if content else []
    return list(content) if isinstance(content, list) else []


def _real(blocks: Sequence[Any]) -> list[Any]:
    return [one for one in blocks if not _is_cache_point(one)]


def _is_cache_point(block: object) -> bool:
    return isinstance(block, dict) and "cachePoint" in block


def _plain(value: object) -> object:
    """Return a block, a tool or a system text in the form in which it is compared.

    Cache marks and empty fields are left out where the API knows them, never inside the arguments
    of a call, which are the caller's own.
    """
    if not isinstance(value, dict):
        return value
    plain: Json = {}
    for key, inner in value.items():
        if key == "cache_control" or inner is None:
            continue
        if key == "content" and isinstance(inner, str) and value.get("type") == "tool_result":
            plain[key] = [{"type": "text", "text": inner}] if inner else []
        elif key == "content" and isinstance(inner, list):
            plain[key] = [_plain(one) for one in _real(inner)]
        elif key in ("toolResult", "source") and isinstance(inner, dict):
            plain[key] = _plain(inner)
        else:
            plain[key] = inner
    return plain


def _without_nonce(block: Any) -> object:
    plain = _plain(block)
    text = plain.get("text") if isinstance(plain, dict) else None
    if isinstance(plain, dict) and isinstance(text, str) and text.startswith(_BILLING):
        return {**plain, "text": _NONCE.sub("cch", text)}
    return plain


def _thinking_in(block: object, format: Format) -> _Said | None:
    """Return the content of a thinking block, or None for any other block."""
    if not isinstance(block, dict):
        return None
    if format == "bedrock":
        inner = block.get("reasoningContent")
        if not isinstance(inner, dict):
            return None
        if "redactedContent" in inner:
            return _redacted(inner["redactedContent"])
        said = inner.get("reasoningText") or {}
        return _open_thought(said.get("text"), said.get("signature"))
    if block.get("type") == "redacted_thinking":
        return _redacted(block.get("data"))
    if block.get("type") == "thinking":
        return _open_thought(block.get("thinking"), block.get("signature"))
    return None


def _open_thought(text: object, signature: object) -> _Said:
    said = str(text or "").encode("utf-8", "surrogatepass")
    return _Said("thinking", said, None if signature is None else _decoded(signature))


def _redacted(data: object) -> _Said:
    """Unpack a redacted block: the length of its signature, the signature, the text."""
    raw = data if isinstance(data, bytes) else _decoded(data)
    end = 4 + int.from_bytes(raw[:4])
    return _Said("redacted_thinking", raw[end:], raw[4:end])


def _decoded(signature: object) -> bytes:
    try:
        return base64.b64decode(signature if isinstance(signature, str) else "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _line(kind: str, value: object) -> bytes:
    """Return a value as one line, so that no two sequences of lines read the same."""
    return (json.dumps([kind, value], sort_keys=True, separators=(",", ":")) + "\n").encode()


# --- the words of the provider


def _block(format: Format, text: str, signed: bytes, *, redacted: bool) -> Json:
    if redacted:
        sealed = len(signed).to_bytes(4) + signed + text.encode("utf-8", "surrogatepass")
        data = base64.b64encode(sealed).decode()
        if format == "bedrock":
            return {"reasoningContent": {"redactedContent": data}}
        return {"type": "redacted_thinking", "data": data}
    signature = base64.b64encode(signed).decode()
    if format == "bedrock":
        return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}
    return {"type": "thinking", "thinking": text, "signature": signature}


def _unreadable(thought: _Thought, format: Format) -> str:
    if thought.said.signature is None and format == "anthropic":
        return f"{thought.path}.thinking.signature: Field required"
    return f"{thought.path}: {_UNREADABLE[thought.said.kind]}"


def _mismatch(thought: _Thought, why: str, *, has_beta: bool) -> str:
    needs = "" if has_beta else _NEEDS_BETA
    return f"{thought.path}: {_UNREADABLE[thought.said.kind]}{_ELSEWHERE}{needs}{why}"


# --- settings


def _model_of(body: Mapping[str, Any]) -> str:
    return str(body.get("model") or body.get("modelId") or "")


def _settings(
    body: Mapping[str, Any], betas: str, format: Format
) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the settings of thinking, and the betas that a request names."""
    if format == "bedrock":
        more = body.get("additionalModelRequestFields") or {}
        thinking, named = more.get("thinking"), more.get("anthropic_beta") or ()
    else:
        thinking, named = body.get("thinking"), betas.split(",")
    found = thinking if isinstance(thinking, dict) else {}
    return found, frozenset(name.strip() for name in named)


def _refused_setting(settings: Mapping[str, Any], *, has_beta: bool, bound: bool) -> str:
    kind = settings.get("type")
    if bound and kind == "enabled":
        return MANUAL
    at = f"thinking.{kind}.block_binding"
    # The SDK has the field on the two modes that think by themselves.
    if "block_binding" in settings and not (has_beta and kind in ("adaptive", "enabled")):
        return f"{at}: {_EXTRA}"
    binding = settings.get("block_binding")
    if binding is None:
        return ""
    if not isinstance(binding, dict):
        return f"{at}: Input should be an object"
    for key in binding:
        if key != "prefix_mismatch_behavior":
            return f"{at}.{key}: {_EXTRA}"
    if binding.get("prefix_mismatch_behavior") not in (None, "error", "drop_block"):
        return f"{at}.prefix_mismatch_behavior: Input should be 'error' or 'drop_block'"
    return ""
