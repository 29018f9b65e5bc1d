"""HTML pages that fetch nothing: their shared shell, and safe embedding of data."""

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
"""The place of the shared head in a template."""
_HASHES = (("__STYLE_HASH__", "<style>", "</style>"), ("__SCRIPT_HASH__", "<script>", "</script>"))
_UNSAFE = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""Characters that could end the data's element or be read as markup in it."""


def write_page(package: str, name: str, data: Mapping[str, Any], *, style: str = "") -> str:
    """Return the page of a template in `package`, with the data inside.

    `style` is generated CSS, which replaces `__STYLE__` in the template.

    Logs are untrusted. The data is written without characters that have a meaning in HTML and shown
    as text only. The page's policy allows its own script alone and no fetching.
    """
    template = _read(package, name)
    for place, file in _SHARED:
        template = template.replace(place, _read(__name__, file).rstrip("\n"))
    template = template.replace("__STYLE__", style)
    for place, opening, closing in _HASHES:
        template = template.replace(place, _hash(template, opening, closing))
    # Last and once, so that placeholders in the data are not replaced.
    before, _, after = template.partition(_DATA)
    return before + _inline(data) + after


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _inline(data: Mapping[str, Any]) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(data, separators=(",", ":")).translate(_UNSAFE)


def _hash(template: str, opening: str, closing: str) -> str:
    """Return the hash by which the page's policy allows a style or script."""
    text = template.partition(opening)[2].partition(closing)[0]
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


__all__ = ["write_page"]
