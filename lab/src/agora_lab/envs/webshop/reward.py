"""The reward of a purchase, after the published definition.

r = r_type * (attributes that match + options that match + price within the limit)
           / (attributes wanted + options wanted + 1)

Attributes and options are compared with `token_set_ratio` of rapidfuzz, as in the published code.
Options are counted by what was wanted, as in the formula. One version of the published code counts
what was chosen, which can exceed 1.

Two things are simpler than published. r_type compares the nouns of two titles there, found by a
spaCy model that no package index carries. Here all words count except numbers, single letters and
joining words, so a shared adjective counts too. Colours are compared as written, without reducing
them to basic colours.
"""

import re
from collections.abc import Iterable, Mapping

from agora import MissingExtraError
from agora_lab.envs.webshop.products import Goal, Product

try:
    from rapidfuzz import fuzz
    from rapidfuzz.utils import default_process
except ImportError as error:
    raise MissingExtraError(__name__, "environments", "agora-lab") from error

_ALIKE = 85
"""Texts whose ratio is above this are the same attribute or option, as published."""
_SAME_BRANCHES = 2
"""Categories with this many common levels are the same category, as published."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_JOINING = frozenset(
    "an and are as at be by for from if in into is it its not of on or our that the their this to"
    " up we with you your".split()
)


def reward(product: Product, chosen: Mapping[str, str], goal: Goal) -> float:
    """Return the reward for buying the product with these options, in [0, 1]."""
    met = (
        sum(has_attribute(product, wanted) for wanted in goal.attributes)
        + sum(any(alike(value, wanted) for value in chosen.values()) for wanted in goal.options)
        + (product.price <= goal.price_limit)
    )
    asked = len(goal.attributes) + len(goal.options) + 1
    return type_reward(product, goal.product) * met / asked


def type_reward(product: Product, wanted: Product) -> float:
    """Return how well the kind of product matches: 0, 0.1, 0.5 or 1."""
    shared = title_match(product.title, wanted.title)
    if shared == 0:
        return 0.0
    if shared < 0.1:
        return 0.1
    same = (
        product.query == wanted.query
        or len(set(product.category) & set(wanted.category)) >= _SAME_BRANCHES
        or shared > 0.2
    )
    return 1.0 if same else 0.5


def title_match(title: str, wanted: str) -> float:
    """Return the share of the wanted title's words that the title has.

    >>> title_match("Oak Table for the Hall", "Table of Oak, 3 Legs")
    0.6666666666666666
    """
    words = _title_words(wanted)
    if not words:
        return 0.2
    return len(set(words) & set(_title_words(title))) / len(words)


def has_attribute(product: Product, wanted: str) -> bool:
    """Return True if the product has the attribute, or its texts name it."""
    if any(alike(attribute, wanted) for attribute in product.attributes):
        return True
    texts = (product.title, " ".join(product.features), product.description)
    return any(wanted in text.lower() for text in texts)


def alike(text: str, wanted: str) -> bool:
    """Return True if two short texts mean the same attribute or option.

    >>> alike("navy blue", "Blue"), alike("black", "blue")
    (True, False)
    """
    return round(fuzz.token_set_ratio(text, wanted, processor=default_process)) > _ALIKE


def _title_words(title: str) -> list[str]:
    return [word for word in _unique(_WORD.findall(title.lower())) if word not in _JOINING]


def _unique(words: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(words)
