"""Serves a customer with several orders in the shop, from the text of a prompt alone.

WebShop's reader serves an order of its own, from the prompt's text about this order. An order that
points back is looked up in the rest of the earlier order: the receipt, else the clicks. The
customer's own words choose options without a remaining click. If nothing is left of the earlier
order, these words are the basis of a new search, which may lead to another product.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agora_lab.agents.base import prompt_blocks
from agora_lab.agents.scripted.left import Apart, Line, apart
from agora_lab.agents.scripted.webshop import READER as SHOP_READER
from agora_lab.agents.scripted.webshop import values_to_choose
from agora_lab.agents.scripted.webshop.pages import read_page
from agora_lab.agents.scripted.webshop.wish import read_wish

BOUGHT = "I have bought it. What is next?"
LOOKED = "I have looked at them. What is next?"
GIVEN_UP = "I am sorry, I could not buy that. What is next?"
_MOST_STEPS = 30
_MOST_PAGES = 5
_CALL = re.compile(r"shop (\{.*\})")
_ORDER = re.compile(r"Order \d{1,3}\. (.*)", re.DOTALL)
_AGAIN = re.compile(r"Buy once more exactly what you bought for order (\d{1,3})\.")
_CHEAPER = re.compile(
    r"Of the two products you looked at for order (\d{1,3}), buy the cheaper one, without options\."
)
_LOOK = re.compile(
    r"Look at the first two products that a search for (.{1,120}) lists; buy nothing yet\."
)
_RECEIPT = re.compile(r"asin \[SEP\] ([A-Z0-9]{10}) \[SEP\] options \[SEP\] (\{.*?\})")
_OPENED = re.compile(r"click\[([A-Z0-9]{10})\]")
_SEARCHED = re.compile(r"search\[([^\]\n]{1,200})\]")
_CLICKED = re.compile(r"click\[([^\]\n]{1,120})\]")
_CODE = re.compile(r"[A-Z0-9]{10}")
_BUTTONS = frozenset(
    ("back to search", "< prev", "next >", "buy now", "description", "features", "reviews")
)


@dataclass(frozen=True, slots=True)
class _Clicks:
    """Options that were clicked, and True if the list is known to be complete."""

    values: list[str]
    complete: bool


@dataclass(slots=True)
class _Visit:
    """The rest of one order: the customer's words, and the actions and pages in order."""

    text: str
    blocks: list[tuple[str, str]] = field(default_factory=list)
    """Actions and pages in order, with the markers between them."""

    @property
    def steps(self) -> int:
        """The known number of steps."""
        taken = sum(role == "ASSISTANT" for role, _ in self.blocks)
        return taken + sum(mark.steps for _, parts in self._read() for mark in parts.marks)

    @property
    def actions(self) -> list[str]:
        """Every action in turn; an empty one where nothing but its number is left."""
        found: list[str] = []
        for role, parts in self._read():
            if role == "ASSISTANT":
                found.append(parts.own)
            for mark in parts.marks:
                found += [""] * (mark.steps - len(mark.lines))
                found += map(_action_left, mark.lines)
        return found

    @property
    def pages(self) -> list[str]:
        """The pages that are left, oldest first."""
        return [parts.own for role, parts in self._read() if role == "TOOL"]

    def opened(self) -> list[str]:
        """Return the products known to have been opened."""
        return _OPENED.findall("\n".join(self.actions))

    def searched(self) -> list[str]:
        """Return the known words of searches."""
        return _SEARCHED.findall("\n".join(self.actions))

    def clicked(self) -> _Clicks:
        """Return the known clicks on the product opened last."""
        after: list[str] = []
        for action in self.actions:
            after = [] if _OPENED.search(action) else [*after, action]
        values = _CLICKED.findall("\n".join(after))
        return _Clicks([one for one in values if one.lower() not in _BUTTONS], all(after))

    def _read(self) -> Iterator[tuple[str, Apart]]:
        for role, text in self.blocks:
            yield role, apart(text, result=role == "TOOL")


def _action_left(line: Line) -> str:
    """Return the action in a line under a marker."""
    said = line.arguments.get("action") or line.done.removeprefix("shop").strip()
    return f"click[{said}]" if _CODE.fullmatch(said) and not said.isalpha() else said


class OrdersReader:
    """Acts in the shop, order by order, on the text of the prompt."""

    def act(self, prompt: str) -> str:
        """Return the next call, or the next sentence to the customer."""
        system, visits = _read(prompt)
        if not visits:
            return GIVEN_UP
        now = visits[-1]
        if now.pages and "Purchased" in now.pages[-1]:
            return BOUGHT
        if now.steps >= _MOST_STEPS:
            return GIVEN_UP
        if look := _LOOK.fullmatch(now.text):
            return _looked(now, look[1])
        found = _AGAIN.fullmatch(now.text) or _CHEAPER.fullmatch(now.text)
        if found is None:
            return _call(_shopped(system, now, now.text))
        number = int(found[1])
        if number > len(visits) - 1:
            return GIVEN_UP
        earlier = visits[number - 1]
        if found.re is _CHEAPER:
            return _call(_picked(now, earlier))
        target = _bought(earlier)
        if target is None:
            return _call(_shopped(system, now, earlier.text))
        return _call(_fetched(now, earlier, *target))


def _read(prompt: str) -> tuple[str, list[_Visit]]:
    system = ""
    visits: list[_Visit] = []
    for role, text in prompt_blocks(prompt):
        if role == "SYSTEM":
            system = text
        elif role == "USER":
            own = apart(text).own
            rest = text[len(own) :]
            order = _ORDER.fullmatch(own.split("\n\n")[-1].strip())
            if order is not None:
                visits.append(_Visit(order[1]))
                if rest:
                    visits[-1].blocks.append(("MARK", rest.strip()))
        elif visits:
            call = _CALL.fullmatch(text) if role == "ASSISTANT" else None
            if role == "TOOL":
                visits[-1].blocks.append((role, text))
            elif call is not None:
                visits[-1].blocks.append((role, _action(call[1])))
    return system, visits


def _action(arguments: str) -> str:
    try:
        return str(json.loads(arguments)["action"])
    except (ValueError, KeyError, TypeError):
        return ""


def _call(action: str) -> str:
    return f"shop {json.dumps({'action': action})}"


def _shopped(system: str, visit: _Visit, instruction: str) -> str:
    """Return the action of WebShop's program for an instruction, with this visit as its own."""
    parts = [f"[SYSTEM]\n{system}"]
    opening = f"WebShop [SEP] Instruction: [SEP] {instruction} [SEP] Search"
    told = f"{instruction}\n\n{opening}"
    for role, text in visit.blocks:
        if role == "MARK":
            told = f"{told}\n\n{text}"
    parts.append(f"[USER]\n{told}")
    for role, text in visit.blocks:
        if role == "ASSISTANT":
            parts.append(f"[ASSISTANT]\n{text}")
        elif role == "TOOL":
            parts.append(f"[USER]\n{text.replace(visit.text, instruction)}")
    return SHOP_READER.act("\n\n".join(parts))


def _bought(visit: _Visit) -> tuple[str, tuple[str, ...] | None] | None:
    """Return the product bought for an order, if the prompt still shows it.

    Return its options too, or None for them if not all clicks are left.
    """
    for page in reversed(visit.pages):
        if found := _RECEIPT.search(page):
            try:
                options = json.loads(found[2])
            except ValueError:
                options = {}
            return found[1], tuple(map(str, options.values()))
    opened = visit.opened()
    if not opened:
        return None
    clicks = visit.clicked()
    return opened[-1], tuple(dict.fromkeys(clicks.values)) if clicks.complete else None


def _looked(now: _Visit, words: str) -> str:
    """Return the next step of looking at the first two products of a search."""
    page = read_page(now.pages[-1]) if now.pages else read_page("Search")
    opened = list(dict.fromkeys(now.opened()))
    if len(opened) >= 2:
        return LOOKED
    if page.kind == "results":
        for listing in page.listings[:2]:
            if listing.asin not in opened:
                return _call(f"click[{listing.asin}]")
    if page.kind == "search":
        return _call(f"search[{words}]")
    return _call("click[< Prev]" if page.kind in ("item", "detail") else "click[Back to Search]")


def _picked(now: _Visit, earlier: _Visit) -> str:
    """Return the next action on the way to the cheaper one of two products."""
    look = _LOOK.fullmatch(earlier.text)
    words = look[1] if look else ""
    known: dict[str, float] = {}
    for visit in (earlier, now):
        for text in visit.pages:
            page = read_page(text)
            for listing in page.listings[:2] if page.number == 1 else ():
                known.setdefault(listing.asin, min(listing.prices, default=0.0))
    if len(known) >= 2:
        pair = list(known)[:2]
        return _fetched(now, earlier, min(pair, key=lambda asin: known[asin]), ())
    # The prices are gone: the same search lists them again.
    page = read_page(now.pages[-1]) if now.pages else read_page("Search")
    return f"search[{words}]" if page.kind == "search" else "click[Back to Search]"


def _queries(visit: _Visit) -> list[str]:
    """Return the searches that may list the product of an order."""
    if look := _LOOK.fullmatch(visit.text):
        return [look[1]]
    return [*dict.fromkeys(reversed(visit.searched())), read_wish(visit.text).query]


def _fetched(now: _Visit, earlier: _Visit, asin: str, options: tuple[str, ...] | None) -> str:
    """Return the next action on the way to a product whose code is known."""
    page = read_page(now.pages[-1]) if now.pages else read_page("Search")
    queries = _queries(earlier)
    tried = [query for query in now.searched() if query in queries]
    if page.kind == "search":
        return f"search[{queries[min(len(tried), len(queries) - 1)]}]"
    if page.kind == "results":
        if any(listing.asin == asin for listing in page.listings):
            return f"click[{asin}]"
        if page.has_next and page.number < _MOST_PAGES:
            return "click[Next >]"
        return "click[Back to Search]"
    if page.kind == "item" and now.opened()[-1:] == [asin]:
        if options is None:
            options = tuple(values_to_choose(page.choices, read_wish(earlier.text)))
        clicked = {value.lower() for value in now.clicked().values}
        for value in options:
            if value.lower() not in clicked:
                return f"click[{value}]"
        return "click[Buy Now]"
    if page.kind == "item" and now.steps >= _MOST_STEPS - 1:
        return "click[Buy Now]"
    return "click[< Prev]" if page.kind in ("item", "detail") else "click[Back to Search]"


READER = OrdersReader()
