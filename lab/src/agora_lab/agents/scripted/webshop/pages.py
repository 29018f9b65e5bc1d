"""Reads the text of a page of the shop."""

import re
from dataclasses import dataclass
from functools import lru_cache

_ASIN = re.compile(r"[A-Z0-9]{10}")
_COUNT = re.compile(r"Page ([0-9]{1,4}) \(Total results: ([0-9]{1,6})\)")
_AMOUNT = re.compile(r"\$([0-9]{1,7}(?:\.[0-9]{1,4})?)")
_SEPARATOR = "[SEP]"
_BACK, _PREVIOUS, _NEXT, _BUY = "Back to Search", "< Prev", "Next >", "Buy Now"


@dataclass(frozen=True, slots=True)
class Listing:
    """A product in a list of results."""

    asin: str
    title: str
    prices: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The parts of a page."""

    kind: str = ""
    """search, results, item, detail or receipt; empty for an unreadable page."""
    instruction: str = ""
    number: int = 1
    listings: tuple[Listing, ...] = ()
    has_next: bool = False
    has_previous: bool = False
    choices: tuple[str, ...] = ()
    """Names and values of options, which the text does not tell apart."""
    title: str = ""
    prices: tuple[float, ...] = ()
    details: tuple[str, ...] = ()
    """The names of further pages."""
    text: str = ""
    """The text of a detail page."""


@lru_cache(maxsize=512)
def read_page(text: str) -> Page:
    """Return the parts of a page. Any text can be read; unknown parts are empty."""
    parts = [part.strip() for part in text.split(_SEPARATOR)]
    instruction = _after(parts, "Instruction:")
    if "Purchased" in parts:
        return Page(kind="receipt")
    for at, part in enumerate(parts):
        count = _COUNT.fullmatch(part)
        if count is not None:
            return _results(parts, at, int(count[1]), instruction)
    if _BUY in parts:
        return _item(parts, instruction)
    if _BACK in parts:
        rest = parts[parts.index(_BACK) + 1 :]
        said = " ".join(part for part in rest if part != _PREVIOUS)
        return Page(kind="detail", instruction=instruction, text=said)
    if parts[-1] == "Search":
        return Page(kind="search", instruction=instruction)
    return Page(instruction=instruction)


def _results(parts: list[str], at: int, number: int, instruction: str) -> Page:
    listings = []
    for place in range(at + 1, len(parts) - 1):
        if _ASIN.fullmatch(parts[place]):
            price = parts[place + 2] if place + 2 < len(parts) else ""
            listings.append(Listing(parts[place], parts[place + 1], _prices(price)))
    buttons = parts[at + 1 : at + 3]
    return Page(
        kind="results",
        instruction=instruction,
        number=number,
        listings=tuple(listings),
        has_next=_NEXT in buttons,
        has_previous=_PREVIOUS in buttons,
    )


def _item(parts: list[str], instruction: str) -> Page:
    start = parts.index(_PREVIOUS) + 1 if _PREVIOUS in parts else 0
    price = next((at for at, part in enumerate(parts) if part.startswith("Price: ")), len(parts))
    before = parts[start:price]
    return Page(
        kind="item",
        instruction=instruction,
        choices=tuple(before[:-1]),
        title=before[-1] if before else "",
        prices=_prices(parts[price]) if price < len(parts) else (),
        details=tuple(name for name in ("Features", "Description") if name in parts),
    )


def _after(parts: list[str], name: str) -> str:
    at = parts.index(name) + 1 if name in parts else len(parts)
    return parts[at] if at < len(parts) else ""


def _prices(tag: str) -> tuple[float, ...]:
    return tuple(float(amount) for amount in _AMOUNT.findall(tag))
