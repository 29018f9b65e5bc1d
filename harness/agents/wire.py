"""Read a recorded request: its route, its body, and its prompt in the order of the cache."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agora import sheet_for
from agora.core.prefix_cache import PrefixCache, Segment

Route = Literal["chat", "responses", "messages", "count_tokens", "gemini", "other"]
Json = dict[str, Any]
FORMATS: Mapping[str, str] = {
    "chat": "openai",
    "responses": "responses",
    "messages": "anthropic",
    "gemini": "gemini",
}
"""The library's name for the format of each route that it can edit."""
_NUMBER = re.compile(r"^/\d+(?=/)")
_NONCE = re.compile(r"\bcch=[0-9a-f]+")
"""A value that Claude Code changes in its system text with each call; the provider takes it out
before it looks into its cache."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a prompt: a tool, a system text, a message or a content block of one."""

    text: str
    marked: bool = False
    """True if the caller put a cache breakpoint at its end."""


Prompt = tuple[Block, ...]


def below_base(path: str) -> str:
    """Return a path without the proxy's number of the upstream."""
    return _NUMBER.sub("", path)


def route_of(path: str) -> Route:
    """Return the route of a path, with or without `/v1` before it.

    >>> route_of("/v1/messages?beta=true"), route_of("/0/chat/completions")
    ('messages', 'chat')
    """
    bare = below_base(path).partition("?")[0].rstrip("/").removeprefix("/v1")
    if bare.startswith(("/v1beta/", "beta/")):
        return "gemini"
    return _ROUTES.get(bare, "other")


_ROUTES: Mapping[str, Route] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    "/messages/count_tokens": "count_tokens",
}


def unpacked(body: bytes, encoding: str = "") -> bytes:
    """Return a body without its content encoding.

    Raises:
        ValueError: The encoding is unknown, or the body is not in it.
    """
    try:
        match encoding.strip().lower():
            case "" | "identity":
                return body
            case "gzip":
                return gzip.decompress(body)
            case "deflate":
                return zlib.decompress(body)
            case "zstd":
                import zstandard

                return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(body))
            case other:
                raise ValueError(f"the content encoding {other!r} is not known here")
    except (OSError, zlib.error, ImportError) as error:
        raise ValueError(f"the body is not readable as {encoding}: {error}") from error


def body_of(raw: bytes, encoding: str = "") -> Json | None:
    """Return the JSON object in a body, or None."""
    try:
        found = json.loads(unpacked(raw, encoding))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def prompt_of(route: Route, body: Json) -> Prompt:
    """Return the prompt in the order in which the provider's cache reads it.

    Cache breakpoints are no part of the text, and a text is the same whether it is written as a
    string or as a list of one block: the provider reads it so.
    """
    match route:
        case "messages" | "count_tokens":
            return tuple(_anthropic(body))
        case "chat":
            return tuple(map(_plain, (*(body.get("tools") or ()), *(body.get("messages") or ()))))
        case "responses":
            items = body.get("input") or ()
            if isinstance(items, str):
                items = ({"role": "user", "content": items},)
            head = (*(body.get("tools") or ()), body.get("instructions") or "")
            return tuple(map(_plain, (*head, *items)))
        case "gemini":
            head = (body.get("tools") or (), body.get("systemInstruction") or "")
            return tuple(map(_plain, (*head, *(body.get("contents") or ()))))
        case _:
            return ()


def extends(longer: Prompt, shorter: Prompt) -> bool:
    """Return True if a prompt begins with the whole of another one."""
    return len(longer) >= len(shorter) and all(
        a.text == b.text for a, b in zip(longer, shorter, strict=False)
    )


def cache_for(model: str) -> PrefixCache:
    """Return an empty cache of a model's provider, which finds all that its rules allow."""
    return PrefixCache(replace(sheet_for(model), hit=1.0))


def segments(prompt: Prompt) -> list[Segment]:
    """Return a prompt as its cache reads it. A token of the fake provider is four characters."""
    return [Segment(block.text, len(block.text) // 4, block.marked) for block in prompt]


def history_of(route: Route, body: Json) -> list[Any]:
    """Return the messages of a request, whatever the format calls them."""
    name = {"responses": "input", "gemini": "contents"}.get(route, "messages")
    found = body.get(name)
    return found if isinstance(found, list) else []


def _plain(value: object) -> Block:
    return Block(_text(value))


def _anthropic(body: Json) -> Iterator[Block]:
    for tool in body.get("tools") or ():
        yield _marked("", tool)
    for block in _as_blocks(body.get("system")):
        yield _marked("system:", block)
    for message in body.get("messages") or ():
        for block in _as_blocks(message.get("content")):
            yield _marked(f"{message.get('role')}:", block)


def _as_blocks(content: object) -> Sequence[object]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def _marked(role: str, block: object) -> Block:
    bare, marked = _without_marks(block)
    return Block(role + _NONCE.sub("cch", _text(bare)), marked)


def _without_marks(value: object) -> tuple[object, bool]:
    """Return a value without its cache breakpoints, and whether it had one."""
    if isinstance(value, dict):
        pairs = {
            key: _without_marks(inner) for key, inner in value.items() if key != "cache_control"
        }
        marked = bool(value.get("cache_control")) or any(mark for _, mark in pairs.values())
        return {key: inner for key, (inner, _) in pairs.items()}, marked
    if isinstance(value, list):
        items = [_without_marks(inner) for inner in value]
        return [inner for inner, _ in items], any(mark for _, mark in items)
    return value, False


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
