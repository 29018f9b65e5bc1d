"""What a provider's answers say of its quota, written down beside what each call was billed.

Only where `AGORA_QUOTA_FILE` names a file, as `agora wrap` does for its own gateway: a line of
numbers for each call, no text of anybody's.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from agora.gateway.watching.bill import Billed

FILE = "AGORA_QUOTA_FILE"
_PREFIX = b"anthropic-ratelimit-"
_KEPT = (b"utilization", b"reset", b"status", b"remaining", b"limit")
_MOST = 64
"""How long such a value may be: numbers, times and one word."""


def told(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers of an answer that tell of a quota, by what follows their prefix.

    >>> told([(b"Anthropic-RateLimit-Unified-5h-Utilization", b"0.42"), (b"date", b"today")])
    {'unified-5h-utilization': '0.42'}
    """
    found = {}
    for name, value in headers:
        low = name.lower()
        if low.startswith(_PREFIX) and low.endswith(_KEPT) and len(value) <= _MOST:
            found[low.removeprefix(_PREFIX).decode("latin-1")] = value.decode("latin-1")
    return found


def tell(headers: Mapping[str, str], billed: Billed) -> None:
    """Write down what was told with a call, if anything was."""
    file = os.environ.get(FILE)
    if file and headers:
        line = json.dumps({**asdict(billed), "told": headers})
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(line + "\n")
