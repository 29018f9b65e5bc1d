"""Pages of HTML that fetch nothing: what they share, and how data gets into one safely."""

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

_DATA = "__DATA__"
_SHARED = (
    ("__HEAD__", "head.html"),
    ("__SHELL_STYLE__", "shell.css"),
    ("__SHELL_SCRIPT__", "shell.js"),
)
"""Where a page's template takes in what all pages begin with."""
_HASHES = (("__STYLE_HASH__", "<style>", "</style>"), ("__SCRIPT_HASH__", "<script>", "</script>"))
_UNSAFE = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""Whatever could end the element that the data stands in, or be read as markup there."""


def write_page(package: str, name: str, data: Mapping[str, Any], *, style: str = "") -> str:
    """Return the page of a template in `package`, with the data inside.

    `style` is style that is made, not written: it stands where the template says `__STYLE__`.

    Logs hold anything, so the data is written without a character that means
    something in HTML, shown as text only, and the page's policy lets no script
    run but its own and nothing be fetched.
    """
    template = _read(package, name)
    for place, file in _SHARED:
        template = template.replace(place, _read(__name__, file).rstrip("\n"))
    template = template.replace("__STYLE__", style)
    for place, opening, closing in _HASHES:
        template = template.replace(place, _hash(template, opening, closing))
    # Last, and once: whatever the data holds is not looked at again.
    before, _, after = template.partition(_DATA)
    return before + _inline(data) + after


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _inline(data: Mapping[str, Any]) -> str:
    """Return JSON that can stand inside a script element."""
    return json.dumps(data, separators=(",", ":")).translate(_UNSAFE)


def _hash(template: str, opening: str, closing: str) -> str:
    """Return what the page's policy knows its one style or script by."""
    text = template.partition(opening)[2].partition(closing)[0]
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


__all__ = ["write_page"]
