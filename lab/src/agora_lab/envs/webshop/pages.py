"""The shop's pages as text, and the target of each click on them.

After the published text mode: the parts of a page in reading order with ` [SEP] ` between them.
Nothing marks clickable parts or chosen options. Only the agent's own actions show what it chose.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agora_lab.envs.webshop.products import Goal, Product

SEPARATOR = " [SEP] "
PER_PAGE = 10
BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
DETAILS = ("Description", "Features", "Reviews")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a customer is in the shop; by default at the search field."""

    found: tuple[str, ...] | None = None
    """The results of the last search."""
    page: int = 1
    asin: str = ""
    """The open product."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Its options that were clicked."""
    detail: str = ""
    """The open further page of the product."""
    bought: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page as a customer sees it, and its clicks."""

    text: str
    clicks: Mapping[str, Place]
    """The clickable texts, in lower case, and where they lead."""
    searchable: bool = False


def page_of(place: Place, goal: Goal, products: Mapping[str, Product]) -> Page:
    """Return the page at a place, before anything is bought."""
    if place.found is None:
        return Page(_join("WebShop", *_instruction(goal), "Search"), {}, searchable=True)
    if not place.asin:
        return _results(place, place.found, goal, products)
    product = products[place.asin]
    if place.detail:
        return _detail(place, goal, product)
    return _item(place, goal, product)


def receipt(product: Product, chosen: Mapping[str, str], reward: float) -> str:
    """Return the last page of an episode: the purchase and its reward."""
    return _join(
        "Thank you for shopping with us!",
        *("Your code:", "None"),
        *("Purchased", "asin", product.asin, "options", json.dumps(chosen, ensure_ascii=False)),
        *("Your score (min 0.0, max 1.0)", f"{reward:.4f}"),
    )


def _results(
    place: Place, found: tuple[str, ...], goal: Goal, products: Mapping[str, Product]
) -> Page:
    start = (place.page - 1) * PER_PAGE
    here = found[start : start + PER_PAGE]
    clicks = {BACK: Place()}
    if place.page > 1:
        clicks[PREVIOUS] = replace(place, page=place.page - 1)
    if start + PER_PAGE < len(found):
        clicks[NEXT] = replace(place, page=place.page + 1)
    count = f"Page {place.page} (Total results: {len(found)})"
    parts = [BACK, count, *list(clicks)[1:]]
    for asin in here:
        parts += [asin, products[asin].title, products[asin].price_tag]
        clicks[asin] = replace(place, asin=asin)
    return Page(_join(*_instruction(goal), *parts), _lower(clicks))


def _item(place: Place, goal: Goal, product: Product) -> Page:
    clicks = {BACK: Place(), PREVIOUS: replace(place, asin="", chosen={})}
    parts = [BACK, PREVIOUS]
    for detail in DETAILS:
        clicks[detail] = replace(place, detail=detail)
    clicks[BUY] = replace(place, bought=True)
    for name, values in product.options.items():
        parts += [name, *values]
        for value in values:
            clicks[value] = replace(place, chosen={**place.chosen, name: value})
    facts = (product.title, f"Price: {product.price_tag}", f"Rating: {product.rating}")
    text = _join(*_instruction(goal), *parts, *facts, *DETAILS, BUY)
    return Page(text, _lower(clicks))


def _detail(place: Place, goal: Goal, product: Product) -> Page:
    said: Mapping[str, tuple[str, ...]] = {
        "Description": (product.description,),
        "Features": product.features,
    }
    parts = [part for part in said.get(place.detail, ()) if part]
    text = _join(
        *_instruction(goal), BACK, PREVIOUS, *(parts or [f"No {place.detail.lower()} found"])
    )
    return Page(text, _lower({BACK: Place(), PREVIOUS: replace(place, detail="")}))


def _instruction(goal: Goal) -> tuple[str, str]:
    return "Instruction:", goal.instruction


def _join(*parts: str) -> str:
    return SEPARATOR.join(parts)


def _lower(clicks: Mapping[str, Place]) -> Mapping[str, Place]:
    return {name.lower(): place for name, place in clicks.items()}
