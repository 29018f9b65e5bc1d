"""WebShop: find and buy the product that a customer wants, in a shop of pages and clicks.

Written here after its description (Yao et al., WebShop: Towards Scalable
Real-World Web Interaction with Grounded Language Agents, NeurIPS 2022), on the
data that was published with it. For details that the paper leaves open (the
order of a page's parts, thresholds) it follows the published code, without a
line of it. `reward`, `search` and `Shop` document their differences.

Splits follow the published way: all made goals are shuffled once with a fixed
seed (233); the first 500 are for testing, the next 1,000 for validation and the
rest for training. Goals of one product may be in several splits, with other
options. Task ids are fixed in splits/webshop.json and not drawn again.
"""

from functools import cache

from agora_lab.envs.base import Outcome, Start, World
from agora_lab.envs.data import data_folder, read_splits
from agora_lab.envs.webshop.pages import Page, Place, page_of, receipt
from agora_lab.envs.webshop.products import Catalogue, Product, read_catalogue
from agora_lab.envs.webshop.reward import reward
from agora_lab.envs.webshop.search import Search

__all__ = [
    "ACTIONS",
    "WORLD",
    "Catalogue",
    "Product",
    "Search",
    "Shop",
    "canonical",
    "extract",
    "loaded",
]

_STEPS = 30
_VERBS = ("search", "click")
_DECORATION = " \t>*`-#\"'"


class Shop:
    """A shop for one customer at a time.

    A search is possible on the first page and behind Back to Search, which have the search field.
    The published text mode accepts it everywhere. An impossible action shows the page again.
    Attributes are hidden from customers, as published.
    """

    def __init__(self, catalogue: Catalogue, search: Search) -> None:
        self._catalogue = catalogue
        self._search = search
        self._page = Page("", {})
        self.place = Place()
        """Where the customer is, or was when buying."""
        self._reward = 0.0
        self._over = True

    def reset(self, task: str) -> Start:
        """Begin with the goal of that name, at the search field."""
        self._goal = self._catalogue.goals[task]
        self._reward = 0.0
        self._over = False
        self._go(Place())
        return Start(task=self._goal.instruction, observation=self._page.text)

    def step(self, action: str) -> Outcome:
        """Search or click, if the page that is open allows it."""
        goes_to = None if self._over else self._led_to(action)
        if goes_to is None:
            return self._outcome(valid=False)
        if goes_to.bought:
            product = self._catalogue.products[goes_to.asin]
            self._reward = reward(product, goes_to.chosen, self._goal)
            self._over = True
            self.place = goes_to
            self._page = Page(receipt(product, goes_to.chosen, self._reward), {})
        else:
            self._go(goes_to)
        return self._outcome(valid=True)

    def close(self) -> None:
        """Do nothing: a shop holds only memory."""

    def _led_to(self, action: str) -> Place | None:
        verb, said = _parts(action)
        if verb == "click":
            return self._page.clicks.get(said)
        if verb == "search" and said and self._page.searchable:
            return Place(found=tuple(self._search.find(said)))
        return None

    def _go(self, place: Place) -> None:
        self.place = place
        self._page = page_of(place, self._goal, self._catalogue.products)

    def _outcome(self, *, valid: bool) -> Outcome:
        return Outcome(
            observation=self._page.text,
            reward=self._reward,
            terminated=self._over,
            valid=valid,
        )


def extract(answer: str) -> str:
    r"""Return the first line of an answer that is an action, else its first line.

    >>> extract("Thought: a lamp.\nAction: search[Brass lamp]\nObservation: none")
    'search[Brass lamp]'
    """
    lines = [line.strip() for line in answer.strip().splitlines()]
    for line in lines:
        said = line.partition(":")[2] if line.lower().startswith("action") else line
        said = said.strip(_DECORATION)
        verb, bracket, _ = said.partition("[")
        if bracket and verb.strip().lower() in _VERBS and "]" in said:
            return said[: said.rindex("]") + 1]
    return lines[0] if lines else ""


def canonical(action: str) -> str:
    """Return the action in lower case with single spaces, which is how the shop reads it."""
    verb, said = _parts(action)
    return f"{verb}[{said}]" if verb in _VERBS else " ".join(action.lower().split())


def _parts(action: str) -> tuple[str, str]:
    """Return the verb and the text in its brackets, as the shop compares them."""
    verb, _, rest = action.strip().partition("[")
    if not rest.endswith("]"):
        return "", ""
    return verb.strip().lower(), " ".join(rest[:-1].lower().split())


def _make() -> Shop:
    return Shop(*loaded(str(data_folder())))


@cache
def loaded(folder: str) -> tuple[Catalogue, Search]:  # noqa: ARG001 - the key of the cache
    """Read the catalogue once per process: shops do not change it."""
    catalogue = read_catalogue()
    documents = {asin: product.document for asin, product in catalogue.products.items()}
    return catalogue, Search(documents)


ACTIONS = """\
search[words] - only on the page that ends with Search
click[text] - where text is one of these, if the page shows it:
  a product's code in a list of results, such as B000000000
  Next > and < Prev, to leaf through pages; < Prev also leads from a product back to the results
  a value of an option, such as a colour or a size; it stays chosen until you leave the product
  Description, Features, Reviews, to read more about a product
  Back to Search, for another search"""
"""The actions in the shop except buying, which ends different things."""

_INSTRUCTIONS = f"""\
You are shopping on a website for the customer whose instruction is given. Find a product that is \
what they ask for, choose the options they name, and buy it. You have at most {_STEPS} steps and \
can buy once; what was not bought brings nothing.

A page is shown as its parts with [SEP] between them. Answer with one action:
{ACTIONS}
  Buy Now, which ends the visit"""

_EXAMPLES = """\
An example of a visit:

Find me water resistant hand lamps with metal case with color: green, and price lower than 30.00 \
dollars

WebShop [SEP] Instruction: [SEP] Find me water resistant hand lamps with metal case with color: \
green, and price lower than 30.00 dollars [SEP] Search
Action: search[water resistant hand lamp metal case green]
Instruction: [SEP] Find me water resistant hand lamps with metal case with color: green, and price \
lower than 30.00 dollars [SEP] Back to Search [SEP] Page 1 (Total results: 2) [SEP] B000000001 \
[SEP] Paper Lantern for Gardens, Green [SEP] $9.5 [SEP] B000000002 [SEP] Hand Lamp in a Metal Case \
[SEP] $24.0
Action: click[B000000002]
Instruction: [SEP] Find me water resistant hand lamps with metal case with color: green, and price \
lower than 30.00 dollars [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] green [SEP] silver \
[SEP] Hand Lamp in a Metal Case [SEP] Price: $24.0 [SEP] Rating: N.A. [SEP] Description [SEP] \
Features [SEP] Reviews [SEP] Buy Now
Action: click[green]
(the same page)
Action: click[Buy Now]"""

WORLD = World(
    name="webshop",
    make=_make,
    instructions=_INSTRUCTIONS,
    examples=_EXAMPLES,
    splits=lambda: read_splits("webshop"),
    extract=extract,
    canonical=canonical,
    most_steps=_STEPS,
)
