"""The catalogue: products, and the goals of customers.

Read from the data files of WebShop (Yao et al., NeurIPS 2022): 1,000 products, and instructions for
415 of them. Each combination of a product's options is a goal, which gives 6,910. Nine of them
repeat an option that a product lists twice. They are left out, so that no goal is in two splits.
"""

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agora_lab.envs.data import DataError, data_file

ORIGIN = "github.com/princeton-nlp/WebShop (its small set of 1,000 products)"
_DOCUMENTS = "webshop/documents_1k.jsonl"
_INSTRUCTIONS = "webshop/items_ins_v2_1000.json"
_PRICE_STEP = 10
_HIGHEST_LIMIT = 990
_LIMITS_TRIED = 4
"""A limit is one of the next four tens above the price, and never the lowest."""
NO_LIMIT = 1_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product, with everything for its pages and its reward."""

    asin: str
    title: str
    description: str
    features: tuple[str, ...]
    price_tag: str
    """The price on its pages, or the two ends of a range."""
    price: float
    """The price of the reward. Inside a range it is drawn once and shown nowhere, as published."""
    rating: str
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    """Its annotations. Goals are made of them; no page shows them."""
    category: tuple[str, ...]
    """From the widest to the narrowest."""
    query: str
    """The search that found it when the data was collected."""
    document: str
    """Its text in the search engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The wish of a customer."""

    name: str
    """Its task id: the product's asin and which of its goals this is."""
    product: Product
    """The product that it was made from."""
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price_limit: float


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All products and goals, in the order of the data files."""

    products: Mapping[str, Product]
    goals: Mapping[str, Goal]


def read_catalogue() -> Catalogue:
    """Return the products and goals in the data files.

    Raises:
        DataError: A file or the product of a goal is missing.
    """
    with data_file(_DOCUMENTS, origin=ORIGIN).open(encoding="utf-8") as lines:
        products = {product.asin: product for product in map(product_of, map(json.loads, lines))}
    goals: dict[str, Goal] = {}
    instructions = data_file(_INSTRUCTIONS, origin=ORIGIN).read_text(encoding="utf-8")
    for asin, wanted in json.loads(instructions).items():
        if asin not in products:
            problem = f"has goals for {asin}, which {_DOCUMENTS} does not have"
            raise DataError(_INSTRUCTIONS, problem)
        goals.update((goal.name, goal) for goal in made_goals(products[asin], wanted))
    return Catalogue(products, goals)


def product_of(line: Mapping[str, Any]) -> Product:
    """Return the product in a line of the documents."""
    item = line["product"]
    asin = str(line["id"])
    prices = [float(price) for price in item["pricing"]]
    return Product(
        asin=asin,
        title=_flat(item["Title"]),
        description=_flat(item["Description"]),
        features=tuple(_flat(feature) for feature in item["BulletPoints"]),
        price_tag=str(item["Price"]),
        price=prices[0] if len(prices) == 1 else _drawn(asin, "price").uniform(*prices[:2]),
        rating=str(item["Rating"]),
        options={
            _flat(name): tuple(dict.fromkeys(map(_flat, values)))
            for name, values in item["options"].items()
        },
        attributes=tuple(item["Attributes"]),
        category=tuple(part.strip() for part in item["product_category"].split("›")),
        query=item["query"].lower().strip(),
        document=str(line["contents"]),
    )


def made_goals(product: Product, wanted: Mapping[str, Any]) -> Iterator[Goal]:
    """Yield one goal per combination of the product's options, if an instruction was made for it.

    The instruction names the kind of product and some attributes; options and
    the limit of the price are added to it in words, as published.
    """
    if not wanted.get("instruction_attributes"):
        return
    limit = price_limit(product)
    names = sorted(product.options)
    combinations = itertools.product(*(product.options[name] for name in names))
    for number, values in enumerate(combinations):
        said = ", and ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
        yield Goal(
            name=f"{product.asin}.{number}",
            product=product,
            instruction=_flat(wanted["instruction"])
            + (f" with {said}" if said else "")
            + _price_said(limit),
            attributes=tuple(wanted["instruction_attributes"]),
            options=values,
            price_limit=limit,
        )


def price_limit(product: Product) -> float:
    """Return the price limit of all goals of a product, drawn once."""
    above = [
        float(limit)
        for limit in range(_PRICE_STEP, _HIGHEST_LIMIT + 1, _PRICE_STEP)
        if limit > product.price
    ][:_LIMITS_TRIED]
    if len(above) < 2:
        return NO_LIMIT
    return max(_drawn(product.asin, "limit").sample(above, 2))


def _price_said(limit: float) -> str:
    return "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"


def _drawn(asin: str, what: str) -> random.Random:
    """Return a generator that depends on the product alone."""
    return random.Random(f"{asin} {what}")


def _flat(text: str) -> str:
    return " ".join(text.split())
