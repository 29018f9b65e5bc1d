"""The thinking in a body that still holds: what does not is taken out before the body is sent.

On models that bind thinking to the prefix. An edit takes out what is older than itself, wherever it
is made; here is what only the sender can know: that this call does not continue the one before,
because an edit came late, was abandoned or refused, or a mode was switched in between.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agora.adapters.thoughts import signatures, without_thinking
from agora.core.binding import binding_of
from agora.gateway.body import (
    Kept,
    Span,
    Unreadable,
    decode,
    elements,
    encode,
    fields,
    insert,
    rewrite,
    splice,
)
from agora.gateway.editing.deciding import UNSURE
from agora.gateway.editing.job import Edited
from agora.gateway.routing.routes import Header, Route
from agora.sent_thinking import SentThinking, Unknown, mark

BETA = b"thinking-binding-controls-2026-08-01"
BETA_HEADER = b"anthropic-beta"
_BEHAVIOUR = "prefix_mismatch_behavior"
_SIGNATURE = b'"signature"'
_SEALED = (b'"redacted_thinking"', b'"redactedContent"')
_RESULTS = (b'"tool_use_id"', b'"toolUseId"', b'"tool_call_id"')
_NEAR = 64
_MAX_TAKEN = 4_096
_MIN_SIGNATURE = 16
"""Shorter values under that name are arguments of tools."""
_LONGEST_GAP = 8
_LONGEST_DATA = 1 << 16
"""How far before its type a sealed block's data may begin; beyond it the block is not known by."""


@dataclass(frozen=True, slots=True)
class Held:
    """A body whose thinking holds."""

    body: bytes
    blocks: int = 0
    """How many thinking blocks were taken out of it here."""
    again: bool = False
    """Whether they were the same at the call before."""
    asks: bool = False
    """Whether it asks the provider to drop what does not hold: the header has to say so too."""


class HeldThinking:
    """Takes thinking out of bodies that do not continue what was sent before. One per process."""

    def __init__(self) -> None:
        self._sent = SentThinking()
        self._taken: OrderedDict[tuple[str, int], None] = OrderedDict()
        """Up to which block thinking was taken out, whose, by the call before."""

    def for_call(
        self,
        own: bytes,
        edited: Edited | None,
        reason: str,
        *,
        route: Route,
        model: str | None,
        who: str,
        may_ask: bool,
    ) -> Held:
        """Return what is sent for a call: the edit, or the client's own body for a `reason`."""
        made = edited if edited is not None and edited.changed else None
        return self.held(
            own,
            made.body if made is not None else own,
            field=route.field,
            model=model,
            who=who,
            edit=made.key if made is not None else None,
            unsure=made is None and reason in UNSURE,
            may_ask=may_ask and route.fields.drops_thinking,
        )

    def held(
        self,
        own: bytes,
        out: bytes,
        *,
        field: str,
        model: str | None,
        who: str,
        edit: Hashable,
        unsure: bool = False,
        may_ask: bool = False,
    ) -> Held:
        """Return the body to send.

        Args:
            own: the client's body.
            out: what is to be sent for it.
            field: where its messages are.
            model: the model that it goes to.
            who: the tenant.
            edit: what tells the edit in `out` from others; None if there is none.
            unsure: whether `out` is the client's own for want of time, though it may have been
                edited before.
            may_ask: whether the provider may be asked to drop what does not hold, where only that
                can be known to be accepted.

        """
        binding = binding_of(model)
        if binding is None or binding.failed_check == "record":
            return Held(out)
        unknown: Unknown = "trust"
        if binding.failed_check == "error" and (unsure or (may_ask and edit is not None)):
            unknown = "ask" if may_ask else "give_up"
        verdict = self._sent.look(marks(own), edit, who=who, begun=begun(own), unknown=unknown)
        body, blocks, again = out, 0, False
        if verdict.dead:
            body, blocks = without(out, field, verdict.dead)
            again = self._was_taken(who, verdict.dead)
        if verdict.asks:
            asked = asking(body)
            if asked is not None:
                return Held(asked, blocks, again, asks=True)
        return Held(body, blocks, again)

    def refused(
        self, own: bytes, sent: bytes, *, field: str, who: str, edit: Hashable
    ) -> Held | None:
        """Return what is sent once more after thinking was refused; None if there is none in it."""
        body, blocks = without(sent, field)
        if not blocks:
            return None
        self._sent.refused(marks(own), edit, who=who)
        self._was_taken(who, next(marks(own), 0))
        return Held(body, blocks)

    def _was_taken(self, who: str, dead: int) -> bool:
        """Tell whether thinking up to this block was taken out before, and note that it is now."""
        known = (who, dead) in self._taken
        self._taken[who, dead] = None
        self._taken.move_to_end((who, dead))
        while len(self._taken) > _MAX_TAKEN:
            self._taken.popitem(last=False)
        return known


def marks(body: bytes) -> Iterator[int]:
    """Yield what each thinking block in a body is known by, newest first, by a look at its bytes.

    What is no thinking but called alike does no harm: it is the same at every call.
    """
    found = {key: body.rfind(key) for key in (_SIGNATURE, *_SEALED)}
    while True:
        key = max(found, key=found.__getitem__)
        at = found[key]
        if at < 0:
            return
        # Only this one: to look for the others again would be to read the body once per block.
        found[key] = body.rfind(key, 0, at)
        value = _value(body, at, key)
        if len(value) >= _MIN_SIGNATURE:
            yield mark(value)


def begun(body: bytes) -> int:
    """Return what a conversation is known by before its first thinking block: its first call."""
    places = ((body.find(key), key) for key in _RESULTS)
    at, key = min(((at, key) for at, key in places if at >= 0), default=(-1, b""))
    value = _value(body, at, key) if at >= 0 else b""
    return mark(value) if value else 0


def _value(body: bytes, at: int, key: bytes) -> bytes:
    """Return the text that belongs to a key at `at`; of a sealed block, its data."""
    behind = at + len(key)
    if key == _SEALED[0]:
        near = body.find(b'"data"', behind, behind + _NEAR)
        if near < 0:
            near = body.rfind(b'"data"', max(0, at - _LONGEST_DATA), at)
            if near < 0:
                return b""
        behind = near + len(b'"data"')
    opened = body.find(b'"', behind, behind + _LONGEST_GAP)
    closed = body.find(b'"', opened + 1) if opened >= 0 else -1
    return body[opened + 1 : closed] if closed >= 0 else b""


def without(body: bytes, field: str, dead: int = 0) -> tuple[bytes, int]:
    """Return a body without its thinking, up to the block `dead` if one is named, and how much.

    Every other byte stays. In doubt the body comes back as it is.
    """
    spans = fields(body)
    span = None if spans is None else spans.get(field)
    slices = None if span is None else elements(body, span)
    if not slices:
        return body, 0
    try:
        messages = decode(b"[%b]" % b",".join(body[start:end] for start, end in slices))
    except Unreadable:
        return body, 0
    until = None
    if dead:
        until = next((at + 1 for at, found in signatures(messages) if mark(found) == dead), 0)
    bare = without_thinking(messages, until=until)
    if not bare.blocks:
        return body, 0
    kept = [
        Kept(at, _text(body, slices[at], messages[at], new) if at in bare.positions else None)
        for at, new in enumerate(bare.messages)
    ]
    pieces = [body[: slices[0][0]], *splice(body, slices, kept), body[slices[-1][1] :]]
    return b"".join(pieces), bare.blocks


def _text(body: bytes, span: Span, old: Mapping[str, Any], new: Mapping[str, Any]) -> bytes:
    return rewrite(body, span, old, new) or encode(new)


def asking(body: bytes) -> bytes | None:
    """Return a body of Anthropic Messages that asks for blocks to be dropped; None if it cannot.

    >>> asking(b'{"thinking": {"type": "adaptive"}}')
    b'{"thinking": {"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}}'
    """
    spans = fields(body)
    if spans is None:
        return None
    span = spans.get("thinking")
    setting = {"type": "adaptive"} if span is None else decode(body[span[0] : span[1]])
    if not isinstance(setting, dict) or setting.get("type") == "disabled":
        return None
    binding = setting.get("block_binding") or {}
    if not isinstance(binding, dict) or binding.get(_BEHAVIOUR):
        # The client's own word stands.
        return body if isinstance(binding, dict) else None
    new = encode({**setting, "block_binding": {**binding, _BEHAVIOUR: "drop_block"}})
    if span is not None:
        return insert(body, spans, [("thinking", new)])
    opened = body.index(b"{") + 1
    comma = b"," if spans else b""
    return b'%b"thinking":%b%b%b' % (body[:opened], new, comma, body[opened:])


def with_beta(headers: list[Header]) -> list[Header]:
    """Return headers with the beta that `asking` needs, next to the client's own betas."""
    out: list[Header] = []
    found = False
    for name, value in headers:
        if name.lower() == BETA_HEADER and not found:
            found = True
            if BETA not in [one.strip() for one in value.split(b",")]:
                value = b"%b,%b" % (value, BETA) if value.strip() else BETA
        out.append((name, value))
    return out if found else [*out, (BETA_HEADER, BETA)]
