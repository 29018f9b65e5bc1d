"""A replay's report as one page of HTML that fetches nothing."""

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

_DATA = "__REPORT__"
_HASHES = (("__STYLE_HASH__", "<style>", "</style>"), ("__SCRIPT_HASH__", "<script>", "</script>"))
_UNSAFE = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""Whatever could end the element that the data stands in, or be read as markup there."""


def page(report: Mapping[str, Any]) -> str:
    """Return the page, with the report inside.

    Logs hold anything, so the data is written without a character that means
    something in HTML, shown as text only, and the page's policy lets no script
    run but its own and nothing be fetched.
    """
    template = resources.files("agora.replay").joinpath("page.html").read_text(encoding="utf-8")
    for name, opening, closing in _HASHES:
        template = template.replace(name, _hash(template, opening, closing))
    before, _, after = template.partition(_DATA)
    return before + _inline(report) + after


def _inline(report: Mapping[str, Any]) -> str:
    """Return JSON that can stand inside a script element."""
    return json.dumps(report, separators=(",", ":")).translate(_UNSAFE)


def _hash(template: str, opening: str, closing: str) -> str:
    """Return what the page's policy knows its one style or script by."""
    text = template.partition(opening)[2].partition(closing)[0]
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
