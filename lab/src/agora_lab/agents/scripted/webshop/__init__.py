"""The reader of WebShop: it compares products before it buys.

The reader searches with the words of the instruction and opens the most promising products. It
reads their details while they could still win, and returns to the best one. It knows products only
from pages that are still in the prompt, and chosen options only from its actions there.
"""

from dataclasses import dataclass
from functools import lru_cache

from agora_lab.agents.scripted.webshop.memory import Candidate, Memory, read_memory
from agora_lab.agents.scripted.webshop.wish import Wish, read_wish, stems

__all__ = ["READER", "ShopReader", "values_to_choose"]

_COMPARED = 3
"""Products to open even if the first one fits completely."""
_MOST_OPENED = 7
_PER_PAGE = 4
"""Products of a page to open before the next page."""
_UNREAD = 0.3
"""The value of an attribute that no page names yet, while pages are left to read."""
_PARTLY = 0.2
"""The value of an attribute whose words are all there, but apart."""
_ALMOST = 0.9
"""The value of an option that contains the wanted words."""
_OTHER_KIND = 0.7
_COMPLETE = 0.999
_RANK = 0.15
"""The penalty for each place further down the list."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a product fits a wish: by the pages that were read, and at best."""

    sure: float
    hoped: float


class ShopReader:
    """Acts in WebShop on the text of the prompt."""

    def act(self, prompt: str) -> str:
        """Return the next action."""
        memory = read_memory(prompt)
        wish = read_wish(memory.instruction)
        kind = memory.page.kind
        if kind == "search":
            return f"search[{_next_query(memory, wish)}]"
        if kind == "results":
            return _on_results(memory, wish)
        if kind == "item":
            return _on_item(memory, wish)
        if kind == "detail":
            return "click[< Prev]"
        if "click[back to search]" not in memory.failed:
            return "click[Back to Search]"
        return f"search[{wish.query}]"


READER = ShopReader()


def _next_query(memory: Memory, wish: Wish) -> str:
    best = _best(memory, wish)
    if best is not None and best.query and _settled(memory, wish):
        return best.query
    # The search in the prompt that ended here found nothing: try fewer words.
    fewer = (" ".join(wish.kind[-2:]), " ".join(wish.kind[-1:]))
    tried = {search.lower() for search in memory.searches}
    untried = (words for words in (wish.query, *fewer) if words and words.lower() not in tried)
    return next(untried, wish.query or "product")


def _on_results(memory: Memory, wish: Wish) -> str:
    target = _best(memory, wish) if _settled(memory, wish) else None
    if target is None:
        target = _next(memory, wish)
    if target is None:
        if memory.page.has_next and "click[next >]" not in memory.failed:
            return "click[Next >]"
        target = _best(memory, wish)
    if target is None:
        return "click[Back to Search]"
    if any(target.asin == listing.asin for listing in memory.page.listings):
        return f"click[{target.asin}]"
    if memory.query in ("", target.query):
        if target.page > memory.page.number and memory.page.has_next:
            return "click[Next >]"
        if target.page < memory.page.number and memory.page.has_previous:
            return "click[< Prev]"
    return "click[Back to Search]"


def _on_item(memory: Memory, wish: Wish) -> str:
    here = memory.open
    best = _best(memory, wish)
    if here is None or best is None or memory.used + 1 >= memory.most:
        return "click[Buy Now]"
    too_late = memory.most - memory.used < _way_to_buy(memory, wish, best)
    if too_late or (best is here and _settled(memory, wish)):
        for value in _choices(here, wish):
            if value.lower() not in memory.chosen:
                return f"click[{value}]"
        return "click[Buy Now]"
    detail = _worth_reading(memory, wish)
    return f"click[{detail}]" if detail else "click[< Prev]"


def _worth_reading(memory: Memory, wish: Wish) -> str:
    """Return the detail of the open product to read next; empty if it cannot win any more."""
    here = memory.open
    if here is None or (memory.torn and (here.read or memory.chosen)):
        return ""
    unread = [name for name in here.details if name not in here.read][here.lost :]
    rival = _best(memory, wish, without=here)
    fit = _fit(here, wish)
    if not unread or fit.hoped <= max(fit.sure, _fit(rival, wish).sure if rival else 0.0):
        return ""
    # Reading a detail costs two steps, and the other product may then be the one to buy.
    ways = [_way_to_buy(memory, wish, one) for one in (here, rival) if one is not None]
    return unread[0] if memory.most - memory.used - 2 >= max(ways) else ""


def _settled(memory: Memory, wish: Wish) -> bool:
    """Return True if it is time to buy: enough was compared, or the steps run out."""
    best = _best(memory, wish)
    if best is None or _worth_reading(memory, wish):
        return False
    opened = sum(one.opened for one in memory.candidates.values())
    if opened >= _MOST_OPENED:
        return True
    if opened >= _COMPARED and _fit(best, wish).sure >= _COMPLETE:
        return True
    if _next(memory, wish) is None and not _may_leaf(memory):
        return True
    # The steps to another product: back to the list, perhaps the next page, the product, and back.
    away = 0 if memory.page.kind == "results" else 1
    return memory.most - memory.used < away + 4 + _way_to_buy(memory, wish, best, afresh=True)


def _may_leaf(memory: Memory) -> bool:
    last = memory.last_page.get(memory.query)
    return last is None or memory.result_page < last


def _way_to_buy(memory: Memory, wish: Wish, best: Candidate, *, afresh: bool = False) -> int:
    to_choose = _choices(best, wish)
    if memory.open is best and not afresh:
        left = sum(value.lower() not in memory.chosen for value in to_choose)
        return left + 1 + (memory.page.kind == "detail")
    pages = abs(best.page - memory.result_page)
    if memory.query not in ("", best.query):
        pages = best.page + 1
    back = {"item": 1, "detail": 2}.get(memory.page.kind, 0)
    return back + pages + 1 + len(to_choose) + 1


def _best(memory: Memory, wish: Wish, *, without: Candidate | None = None) -> Candidate | None:
    """Return the best product that was seen and can be reached."""
    seen = [
        one
        for one in memory.candidates.values()
        if one is not without
        and one.choices is not None
        and (one is memory.open or (one.asin and one.page))
    ]
    return max(
        seen, key=lambda one: (_fit(one, wish).sure, -_cheapest(one), -one.order), default=None
    )


def _next(memory: Memory, wish: Wish) -> Candidate | None:
    """Return the most promising product whose page is not in the prompt."""
    listed = [one for one in memory.candidates.values() if one.page and one.asin]
    opened = sum(one.choices is not None and one.page == memory.result_page for one in listed)
    if opened >= _PER_PAGE and _may_leaf(memory):
        return None
    closed = [
        one
        for one in listed
        if one.choices is None
        and one.page == memory.result_page
        and f"click[{one.asin.lower()}]" not in memory.failed
        and (wish.limit is None or _cheapest(one) <= wish.limit)
    ]
    return max(closed, key=lambda one: (_promise(one, wish), -one.order), default=None)


def _promise(one: Candidate, wish: Wish) -> float:
    """Return how much of the wish is in a product's title.

    A product whose page was opened before is worth less than a new one.
    """
    title = _text(one.title)
    wanted = [*wish.kind, *wish.attributes, *(" ".join(stems(value)) for value in wish.options)]
    return sum(f" {words} " in title for words in wanted) - _RANK * one.order - one.opened


def _fit(one: Candidate, wish: Wish) -> Fit:
    text = _text(" . ".join([one.title, *one.read.values()]))
    more = one.choices is None or any(name not in one.read for name in one.details)
    sure = hoped = _price_fit(one, wish)
    for attribute in wish.attributes:
        found = _attribute_fit(text, attribute)
        sure += max(found, _UNREAD) if more else found
        hoped += 1.0 if more else found
    for value in wish.options:
        if one.choices is None:
            hoped += 1
        else:
            chosen = _choice(one.choices, value)
            count = 0.0 if not chosen else 1.0 if _same(chosen, value) else _ALMOST
            sure += count
            hoped += count
    asked = len(wish.attributes) + len(wish.options) + 1
    kind = 1.0 if not wish.kind or any(f" {word} " in text for word in wish.kind) else _OTHER_KIND
    return Fit(kind * sure / asked, hoped / asked)


def _attribute_fit(text: str, attribute: str) -> float:
    if f" {attribute} " in text:
        return 1.0
    return _PARTLY if all(f" {word} " in text for word in attribute.split()) else 0.0


def _price_fit(one: Candidate, wish: Wish) -> float:
    if wish.limit is None or not one.prices:
        return 1.0
    low, high = min(one.prices), max(one.prices)
    if high <= wish.limit:
        return 1.0
    return 0.0 if low > wish.limit else (wish.limit - low) / (high - low)


def _cheapest(one: Candidate) -> float:
    return min(one.prices, default=0.0)


def _choices(one: Candidate, wish: Wish) -> list[str]:
    return values_to_choose(one.choices or (), wish)


def values_to_choose(choices: tuple[str, ...], wish: Wish) -> list[str]:
    """Return the values to click on a product's page, in the order of the wish."""
    found = (_choice(choices, value) for value in wish.options)
    return list(dict.fromkeys(value for value in found if value))


def _choice(choices: tuple[str, ...], wanted: str) -> str:
    """Return the choice that is the wanted value, or else has all its words."""
    for choice in choices:
        if _same(choice, wanted):
            return choice
    words = set(stems(wanted))
    return next((one for one in choices if words and words <= set(stems(one))), "")


def _same(choice: str, wanted: str) -> bool:
    return choice.lower() == wanted.lower()


@lru_cache(maxsize=2048)
def _text(text: str) -> str:
    """Return the stems of a text between spaces, so that whole words are found in it."""
    return f" {' '.join(stems(text))} "
