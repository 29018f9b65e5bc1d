"""Draws `badge-*.svg`: what `pyproject.toml` says of versions, licence and dependencies.

Run with nothing installed: python docs/images/make_badges.py
Drawn here and not fetched, so that a reader's page asks nobody.
"""

import tomllib
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_WIDE, _NARROW = 7.0, 4.2
"""Pixels that a character takes; the text is stretched to their sum."""


def badges() -> dict[str, str]:
    """Return each badge by its file name."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    prefix = "Programming Language :: Python :: 3."
    versions = [
        line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith(prefix)
    ]
    count = len(project["dependencies"])
    return {
        "badge-python.svg": badge("python", " | ".join(versions), "#2f6fb2"),
        "badge-licence.svg": badge("licence", project["license"], "#1a7f37"),
        "badge-dependencies.svg": badge("dependencies", str(count) if count else "none", "#1a7f37"),
    }


def badge(label: str, value: str, colour: str) -> str:
    """Return two words side by side in boxes."""
    left, right = (_length(text) + 14 for text in (label, value))
    named = f'role="img" aria-label="{escape(label)}: {escape(value)}"'
    font = 'font-family="Verdana, DejaVu Sans, sans-serif" font-size="11"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" {named}>',
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="4"/></clipPath>',
        '<g clip-path="url(#r)">',
        f'<rect width="{left}" height="20" fill="#4a5058"/>',
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>',
        f'<g fill="#fff" {font} text-anchor="middle">',
        _word(label, left / 2, left - 14),
        _word(value, left + right / 2, right - 14),
        "</g></svg>",
    ]
    return "\n".join(parts) + "\n"


def _length(text: str) -> int:
    return round(sum(_NARROW if c in "fijlt.|-: " else _WIDE for c in text))


def _word(text: str, middle: float, length: int) -> str:
    return f'<text x="{middle:g}" y="14" textLength="{length}">{escape(text)}</text>'


if __name__ == "__main__":
    for name, text in badges().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
