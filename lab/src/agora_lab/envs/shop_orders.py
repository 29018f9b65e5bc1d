"""Several orders in WebShop in one conversation, some of which point back to earlier ones.

The shop, its search and its goals are WebShop's; the agent acts by one tool. An order that points
back asks for a product that was bought or opened for an earlier one, so its details are in the
results of that order and nowhere else: the customer does not repeat them.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agora_lab.envs.base import Outcome, Start, World
from agora_lab.envs.data import data_folder, read_splits
from agora_lab.envs.tool_calls import CallError, OneTool, canonical
from agora_lab.envs.webshop import ACTIONS, Catalogue, Search, Shop, loaded
from agora_lab.envs.webshop import extract as extract_action
from agora_lab.envs.webshop.products import Goal

NAME = "shop_orders"
LEAST_ORDERS, MOST_ORDERS = 8, 14
STEPS_AN_ORDER = 30
_POINTING_BACK = 0.5
_LOOKING = 0.3
"""How often an order that does not point back is only to look at something."""
TOOL = OneTool("shop", "action")
_AMOUNT = re.compile(r"\$([0-9]{1,7}(?:\.[0-9]{1,4})?)")
FAREWELL = "Thank you, that is all."

INSTRUCTIONS = f"""\
You are shopping on a website for a customer who gives you orders one after the other. For each, \
find what is asked for, choose the options that are named, and buy it, once. You have at most \
{STEPS_AN_ORDER} steps for an order and begin at the search field. When you have bought, say so in \
plain words: the customer then gives you the next order. Some orders point back to earlier ones.

Answer with one call of the tool, on a line of its own: shop {{"action": "ACTION"}}
A page is shown as its parts with [SEP] between them. Actions:
{ACTIONS}
  Buy Now, which ends the order"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order: the customer's words and their meaning."""

    text: str
    goal: Goal
    """The goal of this order, or of the one that it points to."""
    again: int | None = None
    """The order whose purchase the customer wants again."""
    pair: tuple[str, ...] = ()
    """The two products that are only looked at, or of which the cheaper one is wanted."""
    looked: int | None = None
    """The order for which they were looked at; None where that is this one."""

    @property
    def counts(self) -> bool:
        """True if the customer wants to buy something."""
        return not self.pair or self.looked is not None


class ShopOrders:
    """One conversation at a time.

    The reward is the mean over the orders for which something is to be bought: WebShop's own, and
    1 or 0 for an order that points back.
    """

    def __init__(self, catalogue: Catalogue, search: Search) -> None:
        self._catalogue = catalogue
        self._search = search
        self.orders: tuple[Order, ...] = ()
        self._begin()

    def reset(self, task: str) -> Start:
        """Begin the conversation of that name, which begins with the split of its goals."""
        chance = random.Random(f"{NAME} {task}")
        split = task.partition("-")[0]
        return self.begin(_Drawing(chance, self._catalogue, self._search, split).drawn())

    def begin(self, orders: Sequence[Order]) -> Start:
        """Begin a conversation with these orders."""
        self.orders = tuple(orders)
        self._begin()
        self._open()
        return Start(task="Hello, I have some orders for you.", observation=self.orders[0].text)

    def step(self, action: str) -> Outcome:
        """Act in the shop, or hear the next order."""
        try:
            inner = TOOL.given(action)
        except CallError as error:
            return self._outcome(f"Error: {error}", valid=False)
        if inner is None:
            return self._said()
        self._used += 1
        if self._used > STEPS_AN_ORDER:
            return self._outcome("Error: no steps are left for this order", valid=False)
        outcome = self._shop.step(extract_action(inner))
        place = self._shop.place
        if outcome.terminated and self.bought[-1] is None:
            self.bought[-1] = (place.asin, dict(place.chosen))
            self._rewards[-1] = self._earned(outcome.reward)
        return self._outcome(outcome.observation, valid=outcome.valid)

    def close(self) -> None:
        """Give back nothing: a shop holds nothing but memory."""

    def _begin(self) -> None:
        self._used = 0
        self._over = False
        self.bought: list[tuple[str, dict[str, str]] | None] = []
        self._rewards: list[float] = []

    def _open(self) -> None:
        """Open the shop for the next order."""
        order = self.orders[len(self.bought)]
        said = order.text.partition(". ")[2]
        goal = replace(order.goal, instruction=said)
        shop = Catalogue(self._catalogue.products, {"now": goal})
        self._shop = Shop(shop, self._search)
        self._shop.reset("now")
        self._used = 0
        self.bought.append(None)
        self._rewards.append(0.0)

    def _said(self) -> Outcome:
        if len(self.bought) >= len(self.orders):
            self._over = True
            return self._outcome(FAREWELL)
        self._open()
        return self._outcome(self.orders[len(self.bought) - 1].text)

    def _earned(self, reward: float) -> float:
        order = self.orders[len(self.bought) - 1]
        if order.again is not None:
            return float(self.bought[-1] == self.bought[order.again])
        if order.pair:
            # Nothing is to be bought while the customer only looks.
            wanted: tuple[str, dict[str, str]] = (self._cheaper(order.pair), {})
            return float(order.looked is not None and self.bought[-1] == wanted)
        return reward

    def _cheaper(self, pair: Sequence[str]) -> str:
        products = self._catalogue.products
        return min(pair, key=lambda asin: lowest(products[asin].price_tag))

    def _outcome(self, observation: str, *, valid: bool = True) -> Outcome:
        return Outcome(
            observation=observation,
            reward=sum(self._rewards) / sum(order.counts for order in self.orders),
            terminated=self._over,
            valid=valid,
        )


def lowest(price_tag: str) -> float:
    """Return the lowest price that a tag names."""
    return min(map(float, _AMOUNT.findall(price_tag)), default=0.0)


@dataclass(slots=True)
class _Drawing:
    """Draws the orders of a conversation."""

    chance: random.Random
    catalogue: Catalogue
    search: Search
    split: str
    orders: list[Order] = field(default_factory=list)

    def drawn(self) -> tuple[Order, ...]:
        names = self.chance.sample(list(read_splits("webshop")[self.split]), 4 * MOST_ORDERS)
        for _ in range(self.chance.randrange(LEAST_ORDERS, MOST_ORDERS + 1)):
            order = self._back() if self.chance.random() < _POINTING_BACK else None
            while order is None:
                goal = self.catalogue.goals[names.pop()]
                order = self._look(goal) if self.chance.random() < _LOOKING else self._fresh(goal)
            self.orders.append(order)
        return tuple(self.orders)

    def _said(self, text: str) -> str:
        return f"Order {len(self.orders) + 1}. {text}"

    def _fresh(self, goal: Goal) -> Order:
        return Order(text=self._said(goal.instruction), goal=goal)

    def _look(self, goal: Goal) -> Order | None:
        words = goal.product.query
        pair = tuple(self.search.find(words)[:2])
        prices = {lowest(self.catalogue.products[asin].price_tag) for asin in pair}
        if len(prices) < 2:
            return None
        text = f"Look at the first two products that a search for {words} lists; buy nothing yet."
        return Order(text=self._said(text), goal=goal, pair=pair)

    def _back(self) -> Order | None:
        ago = len(self.orders) - 1
        used = {order.looked for order in self.orders} | {order.again for order in self.orders}
        found = [at for at, order in enumerate(self.orders[:ago]) if at not in used]
        found = [at for at in found if self.orders[at].again is None]
        found = [at for at in found if self.orders[at].looked is None]
        if not found:
            return None
        at = self.chance.choice(found)
        past = self.orders[at]
        if past.pair:
            text = (
                f"Of the two products you looked at for order {at + 1}, buy the cheaper one, "
                "without options."
            )
            return Order(text=self._said(text), goal=past.goal, pair=past.pair, looked=at)
        text = f"Buy once more exactly what you bought for order {at + 1}."
        return Order(text=self._said(text), goal=past.goal, again=at)


def splits() -> Mapping[str, Sequence[str]]:
    """Return the conversations by split; their goals are WebShop's of the same split."""
    return read_splits(NAME)


def _make() -> ShopOrders:
    return ShopOrders(*loaded(str(data_folder())))


WORLD = World(
    name=NAME,
    make=_make,
    instructions=INSTRUCTIONS,
    examples="",
    splits=splits,
    extract=TOOL.extract,
    canonical=canonical,
    most_steps=MOST_ORDERS * (STEPS_AN_ORDER + 1),
    calls=True,
)
