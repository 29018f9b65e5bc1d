"""A framework's messages through the compressor and back, as edits to its own objects.

A framework file writes its messages as chat completions, one dict per message, and gets back
which of them stay, what text they take, and which lose their thinking. Its objects are never
rebuilt from dicts, so that ids, metadata and whatever we do not know of stay with the messages that
stay.
"""

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from agora.bound_thinking import refused_thinking
from agora.compressor import Compressor
from agora.core.binding import binds
from agora.core.compression import Compression, FallbackLevel, Reason
from agora.formats.thinking import is_thinking, thinks
from agora.integrations.wire import Message, Wire, text_part, wire_of

T = TypeVar("T")
_LOG = logging.getLogger("agora.integrations")


def _as_it_is(own: T) -> T:
    return own


@dataclass(frozen=True, slots=True)
class Kept:
    """A message that stays, and the text that it takes."""

    position: int
    """Where it stood."""
    texts: tuple[str, ...] = ()
    how: Literal["append", "replace", "after"] = "append"
    """Behind its own content, instead of it, or as user text right after the message: then the
    message itself stands before, as one kept without a text."""
    apart: bool = False
    """Whether texts are parts of their own even where the framework holds one string."""
    thoughtless: bool = False
    """Whether its thinking has to go: it is older than a change of what stands before it, and the
    model would refuse it. A message that held nothing else takes a text."""


@dataclass(frozen=True, slots=True)
class CompressedChat:
    """What stays of a framework's messages, and the account of it."""

    kept: tuple[Kept, ...]
    compression: Compression

    def rebuild(
        self,
        messages: Sequence[T],
        edit: Callable[[T, Kept], Sequence[T]],
        bare: Callable[[T], T] = _as_it_is,
    ) -> list[T]:
        """Return the messages to send.

        `bare` gives a copy of a message without its signed thinking, `edit` writes those that take
        a text; one that is to lose its thinking and to take a text has lost it when `edit` gets it.
        """
        out: list[T] = []
        for kept in self.kept:
            own = messages[kept.position]
            own = bare(own) if kept.thoughtless else own
            out += edit(own, kept) if kept.texts else (own,)
        return out

    def regroup(
        self,
        runs: Sequence[tuple[int, list[T]]],
        edit: Callable[[list[T], Kept], Sequence[T]],
        bare: Callable[[list[T]], list[T]] = _as_it_is,
    ) -> dict[int, list[T]]:
        """Return what stays of each message, where one goes out as several `runs` of parts.

        A run comes with the number of its message; a message of which nothing
        stays is not there. `edit` and `bare` do with runs what they do with
        messages in `rebuild`.
        """
        out: dict[int, list[T]] = {}
        for kept in self.kept:
            at, own = runs[kept.position]
            own = bare(own) if kept.thoughtless else own
            out.setdefault(at, []).extend(edit(own, kept) if kept.texts else own)
        return out


class FailOpen:
    """Runs an edit and, where that fails, gives what was there before, with one line in the log."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said = False

    def __call__(
        self, edit: Callable[[], T], otherwise: T, bare: Callable[[], T] | None = None
    ) -> T:
        """Return what `edit` gives, or `otherwise` if it raises. The first time is a warning.

        `bare` gives the same without thinking, for a model that binds it (see `is_bound`): earlier
        calls may have been edited, and what was thought then would be refused now.
        """
        try:
            return edit()
        except Exception as error:
            level = logging.DEBUG if self._said else logging.WARNING
            self._said = True
            how, given = "unchanged", otherwise
            if bare is not None:
                with contextlib.suppress(Exception):
                    how, given = "without thinking", bare()
            what = f"{type(error).__name__}: {error}"
            self._log.log(level, "messages handed on %s: %s", how, what)
            return given


def is_bound(compressor: Compressor, model: str | None) -> bool:
    """Return True if a model refuses thinking whose prefix was changed later."""
    told = compressor.binds_thinking
    return binds(model) if told is None else told


def logged(compression: Compression) -> Compression:
    """Return the compression, with a line about it in the log, and itself with that line.

    `INFO` where something was elided, or would have been but for shadow mode, `DEBUG` otherwise;
    the record has it as its attribute `compression`.
    """
    decided = compression.changed or compression.reason is Reason.SHADOW
    level = logging.INFO if decided else logging.DEBUG
    _LOG.log(level, "%s", compression.summary(), extra={"compression": compression})
    return compression


def compress_chat(
    compressor: Compressor,
    chat: Sequence[Message],
    *,
    format: str = "openai",
    model: str | None = None,
    system: str | None = None,
    tools: Sequence[Message] = (),
    thinking: bool | None = None,
) -> CompressedChat | None:
    """Return what stays of `chat`, or None when it stays as it is.

    Args:
        compressor: decides.
        chat: chat completions messages, one for each of the framework's. An assistant message
            may have `thoughts`: thinking blocks or reasoning items, as the provider gave them.
        format: the wire format they will go out in: openai, responses or anthropic. What may be
            removed, and what it costs, depends on it.
        model: the model they go to.
        system: system text that the framework keeps apart from its messages.
        tools: chat completions tools.
        thinking: whether extended thinking is on (Anthropic).

    """
    # Where thinking is bound, its rules hold before the first: all calls have to be edited alike.
    may_think = is_bound(compressor, model) and any("thoughts" in message for message in chat)
    if format == "openai" and (may_think or any(_thinks(message) for message in chat)):
        # Anthropic's thinking through somebody's chat dialect: its rules hold all the same.
        format = "anthropic"
    wire = wire_of(format, chat, system, tools)
    try:
        compression = compressor.compress(
            wire.messages,
            model=model,
            format=format,
            system=wire.system,
            tools=wire.tools or None,
            thinking=thinking,
        )
    except Exception:
        # The call goes out unedited: what the model thinks there will not fit an edited one.
        refused_thinking(wire.messages, _unedited(wire.messages))
        raise
    if not logged(compression).changed:
        return None
    kept = [Kept(position) for position in wire.aside]
    for at, new in zip(compression.positions, compression.messages, strict=True):
        kept += _kept(wire, at, new)
    return CompressedChat(_once(kept), compression)


def with_text(content: Any, kept: Kept, part: Callable[[str], Any] = text_part) -> Any:
    """Return text, or a list of parts that `part` makes, with what `kept` says."""
    if isinstance(content, str) and not kept.apart:
        own = [content] if content and kept.how == "append" else []
        return "\n\n".join([*own, *kept.texts])
    if isinstance(content, str):
        content = [part(content)] if content else []
    parts = list(content)
    return [*(parts if kept.how == "append" else ()), *map(part, kept.texts)]


def _unedited(messages: list[Message]) -> Compression:
    return Compression(
        messages=messages,
        tokens_before=0,
        tokens_after=0,
        reason=Reason.FAILED,
        fallback_level=FallbackLevel.UNTOUCHED,
    )


def _thinks(message: Message) -> bool:
    return any("thinking" in str(thought.get("type")) for thought in message.get("thoughts", ()))


def _kept(wire: Wire, at: int, new: Message) -> list[Kept]:
    """Return the framework's messages that one wire message stands for."""
    old, places = wire.messages[at], wire.places[at]
    if new is old:
        return [Kept(place.position) for place in places]
    field = "output" if "output" in old else "content"
    before, after = old[field], new[field]
    if len(places) == 1 and not places[0].result:
        apart = not isinstance(before, str)
        thoughtless = thinks(old) and not thinks(new)
        if thoughtless:
            before = [block for block in before if not is_thinking(block)]
        return [Kept(places[0].position, *_difference(before, after), apart, thoughtless)]
    kept, start = [], 0
    for place in places:
        keep = Kept(place.position, (), "replace")
        if place.result and after[start]["content"] != before[start]["content"]:
            own, its = before[start]["content"], after[start]["content"]
            keep = Kept(place.position, *_difference(own, its))
        kept.append(keep)
        start += place.blocks
    added = tuple(block["text"] for block in after[start:])
    last = places[-1]
    if added and not last.result:
        kept[-1] = Kept(last.position, added, "append", apart=True)
    elif added:
        kept.append(Kept(last.position, added, "after"))
    return kept


def _difference(old: Any, new: Any) -> tuple[tuple[str, ...], Literal["append", "replace"]]:
    if isinstance(old, str):
        if old and new.startswith(f"{old}\n\n"):
            return (new[len(old) + 2 :],), "append"
        return (new,), "replace"
    if new[: len(old)] == old:
        return tuple(part["text"] for part in new[len(old) :]), "append"
    return tuple(part["text"] for part in new), "replace"


def _once(kept: Sequence[Kept]) -> tuple[Kept, ...]:
    """Return each of the framework's own messages once; several items may stand for one."""
    out: list[Kept] = []
    for keep in sorted(kept, key=lambda keep: keep.position):
        if keep.position < 0:
            continue
        if out and out[-1].position == keep.position and not keep.texts:
            continue
        out.append(keep)
    return tuple(out)
