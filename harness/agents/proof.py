"""Check that a wrapped session changed nothing but messages.

Every function returns a list of problems as sentences.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness.agents.analysis import Pair
from harness.agents.drivers import ANTHROPIC_KEY, GEMINI_KEY, OPENAI_KEY
from harness.agents.record import Request
from harness.agents.session import altered
from harness.agents.wire import below_base, unpacked
from harness.shortened import ORIGIN

_OF_ONE_HOP = frozenset(
    "host connection content-length transfer-encoding keep-alive content-encoding te "
    "accept-encoding".split()  # Narrowed to what usage can be read in.
)
_MESSAGES = {"responses": "input", "gemini": "contents"}
MARKER = re.compile(rb"\[steps? [0-9]+[^\]\n]*" + re.escape(ORIGIN.encode()))
_IDENTIFIER = re.compile(rb"ID-\d{5,6}")
"""What each function of the made-up repository has one of."""
_LARGEST = 200 << 20


def changed_beside_messages(exchanges: Sequence[Pair]) -> list[str]:
    """Return differences between the requests at both ends, other than in messages."""
    found: dict[str, int] = {}
    for exchange in exchanges:
        for arrived in exchange.arrived:
            for problem in _changed(exchange.sent, arrived):
                found[problem] = found.get(problem, 0) + 1
    return [f"{problem} ({count} calls)" for problem, count in found.items()]


def _changed(sent: Request, arrived: Request) -> Iterator[str]:
    # The agent's base URL is the number of an upstream, in place of that upstream's whole URL.
    if sent.method != arrived.method or not arrived.path.endswith(below_base(sent.path)):
        yield f"{sent.method} {sent.path} became {arrived.method} {arrived.path}"
    for one, other in zip_longest(_headers(sent), _headers(arrived)):
        if one != other:
            yield f"the header {(one or other or ('',))[0]} was changed"
            break
    if sent.body != arrived.body and _beside(sent) != _beside(arrived):
        yield "a field other than the messages was changed"


def _headers(request: Request) -> list[tuple[str, str]]:
    return [(k.lower(), value) for k, value in request.headers if k.lower() not in _OF_ONE_HOP]


def _beside(request: Request) -> list[tuple[str, Any]]:
    """Return the fields of a body other than its messages, in order and to the digit."""
    encoding = next((v for k, v in request.headers if k.lower() == "content-encoding"), "")
    text = unpacked(request.body, encoding)
    pairs = json.loads(text, object_pairs_hook=list, parse_float=str, parse_int=str)
    name = _MESSAGES.get(request.route, "messages")
    return [(key, value) for key, value in pairs if key != name]


def changed_on_disk(folder: Path, exchanges: Sequence[Pair]) -> list[str]:
    """Return the results that the agent's history on disk lacks or has as markers."""
    home = folder / "home"
    kept: set[bytes] = set()
    marked = []
    for root in (home, folder / "repository"):
        for path in sorted(root.rglob("*")):
            if ".git" in path.parts or not path.is_file() or path.stat().st_size > _LARGEST:
                continue
            # Words of the repository would be on disk in any case.
            if root != home and path.suffix == ".py":
                continue
            read = path.read_bytes()
            kept.update(_IDENTIFIER.findall(read))
            if MARKER.search(read):
                marked.append(path.name)
    sent: set[bytes] = set()
    # Without an edited request there is nothing to compare.
    if any(exchange.edited for exchange in exchanges):
        longest = max(exchanges, key=lambda exchange: len(exchange.sent.body))
        sent = set(_IDENTIFIER.findall(longest.sent.body))
    found = [f"a marker is in the agent's own file {name}" for name in marked]
    if sent - kept:
        found.append(f"{len(sent - kept)} of {len(sent)} names are not in the agent's own history")
    return found


def home_touched(folder: Path) -> list[str]:
    """Return the user's files that were changed, and files that `agora wrap` left behind.

    Files that the agent also alters without `agora wrap` do not count.
    """
    path = folder / "direct.json"
    itself = set(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else set()
    found = [f"the user's file {name} was changed" for name in sorted(altered(folder) - itself)]
    left = [path.name for path in (folder / "tmp").glob("agora-*")]
    found += [f"{name} was left behind" for name in left]
    for name in ("proxy.log", "account.json"):
        path = folder / name
        said = path.read_bytes() if path.is_file() else b""
        if any(key.encode() in said for key in (OPENAI_KEY, ANTHROPIC_KEY, GEMINI_KEY)):
            found.append(f"a key is in {name}")
    return found
