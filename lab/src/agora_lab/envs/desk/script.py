"""The requests of a customer in one conversation, drawn by chance, with their expected effects.

Half of the requests point back: to a card, an order, an address or a code that an earlier request
showed. Each request is drawn on a copy of the database with the effects of all requests before it,
so that it is always possible.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agora_lab.envs.desk.catalogue import CITIES, DAYS, SERVICES, TODAY
from agora_lab.envs.desk.database import PEOPLE, Place, State, changes, state_of, value_at
from agora_lab.envs.desk.tools import call, order_of

LEAST_REQUESTS, MOST_REQUESTS = 18, 52
_POINTING_BACK = 0.6
"""How often a request points back where one can."""
_LEAST_AGO = 2
"""The least number of requests since the thing that it points to."""
ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"),
    *("ninth", "tenth", "eleventh", "twelfth"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A value that a request needs and does not name, and which an earlier request showed."""

    value: str
    request: int
    """The place of the earlier request, from 0."""
    again: bool
    """True if a tool can show it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One request: the customer's words and the required changes."""

    kind: str
    text: str
    deed: tuple[str, Mapping[str, Any]] | None = None
    """The call that does it; None where something is only looked up."""
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All requests of a conversation, and the database as it has to be at its end."""

    wishes: tuple[Wish, ...]
    expected: State
    effects: tuple[Mapping[Place, Any], ...]
    """For each request, the fields that it has to change, with their new values."""
    owners: Mapping[Place, int]
    """For every field that has to change, the request that changes it last."""

    @property
    def counted(self) -> tuple[int, ...]:
        """The places of the requests that change something."""
        return tuple(at for at, wish in enumerate(self.wishes) if wish.deed is not None)


def scripted(database: sqlite3.Connection, chance: random.Random) -> Script:
    """Return a script for a database, which is changed as the script asks."""
    drawing = _Drawing(database, chance)
    owners: dict[Place, int] = {}
    effects: list[Mapping[Place, Any]] = []
    before = state_of(database)
    count = chance.randrange(LEAST_REQUESTS, MOST_REQUESTS + 1)
    while len(drawing.wishes) < count:
        wish = drawing.drawn()
        if wish is None:
            continue
        at = len(drawing.wishes)
        drawing.wishes.append(wish)
        effects.append({})
        if wish.deed is not None:
            result = call(database, *wish.deed)
            after = state_of(database)
            effects[at] = {place: value_at(after, place) for place in changes(before, after)}
            owners.update(dict.fromkeys(effects[at], at))
            before = after
            drawing.remember(at, wish, result)
    return Script(
        wishes=tuple(drawing.wishes), expected=before, effects=tuple(effects), owners=owners
    )


@dataclass(slots=True)
class _Past:
    """Something earlier that a request can point to."""

    request: int
    values: Mapping[str, Any]
    used: bool = False


@dataclass(slots=True)
class _Drawing:
    database: sqlite3.Connection
    chance: random.Random
    wishes: list[Wish] = field(default_factory=list)
    _people: list[sqlite3.Row] = field(init=False)
    _mentioned: set[str] = field(default_factory=set)
    _past: dict[str, list[_Past]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = self.database.execute("SELECT * FROM customers ORDER BY customer_id").fetchall()
        self._people = self.chance.sample(rows, PEOPLE)

    def drawn(self) -> Wish | None:
        """Return a request, or None if the draw is not possible now."""
        fresh: list[Callable[[], Wish | None]] = [
            *(self._order, self._cancel, self._exchange, self._return, self._redirect, self._book),
            *(self._ask_orders, self._ask_products, self._ask_slots),
        ]
        back: list[Callable[[], Wish | None]] = [
            *(self._order_with_old_payment, self._order_with_credit, self._return_to_old_payment),
            *(self._cancel_placed, self._undo_redirect, self._pick_order, self._pick_product),
            *(self._pick_slot, self._book_technician, self._move),
        ]
        points = self.chance.random() < _POINTING_BACK
        mentioned = set(self._mentioned)
        wish = self.chance.choice(back if points else fresh)()
        if wish is None:
            self._mentioned = mentioned
        return wish

    def remember(self, at: int, wish: Wish, result: Any) -> None:
        """Note the result of an action, so that later requests can point to it."""
        assert wish.deed is not None  # noqa: S101
        name, arguments = wish.deed
        if name == "place_order":
            self._add("placed", at, order=result["order_id"], payment=arguments["payment_id"])
        elif name == "cancel_order":
            self._add("cancelled", at, code=result["credit"]["code"])
        elif name == "book_slot":
            visit = result["visit"]
            self._add("booked", at, booking=result["booking_id"], **visit)

    def _add(self, what: str, at: int, **values: Any) -> None:
        self._past.setdefault(what, []).append(_Past(at, values))

    def _back(self, what: str, *, once: bool = False) -> tuple[str, _Past] | None:
        """Return something earlier of a kind, and which one it was in words."""
        now = len(self.wishes)
        found = [
            (word, past)
            for word, past in zip(ORDINALS, self._past.get(what, ()), strict=False)
            if now - past.request >= _LEAST_AGO and not (once and past.used)
        ]
        return self.chance.choice(found) if found else None

    def _person(self) -> sqlite3.Row:
        return self.chance.choice(self._people)

    def _named(self, person: sqlite3.Row) -> str:
        """Return a customer's name, with the address for mail when it is new."""
        first = str(person["first_name"])
        if first in self._mentioned:
            return first
        self._mentioned.add(first)
        return f"{first} {person['last_name']} ({person['email']})"

    def _payment(self, person: sqlite3.Row) -> tuple[str, str]:
        """Return the id of one of a customer's payment methods, and its name."""
        methods = self.database.execute(
            "SELECT * FROM payment_methods WHERE customer_id = ? ORDER BY payment_id",
            (person["customer_id"],),
        ).fetchall()
        one = self.chance.choice(methods)
        said = f"{one['brand']} ending in {one['last_four']}" if one["brand"] else "PayPal"
        return one["payment_id"], f"{person['first_name']}'s {said}"

    def _variant(self, product: str, *, other_than: str = "") -> tuple[str, str] | None:
        """Return the cheapest available item with a drawn option, and the words for the option."""
        rows = self.database.execute(
            "SELECT * FROM items WHERE product_id = ? AND available AND item_id != ? "
            "ORDER BY price",
            (product, other_than),
        ).fetchall()
        if not rows:
            return None
        drawn = json.loads(self.chance.choice(rows)["options"])
        name = self.chance.choice(sorted(drawn))
        cheapest = next(row for row in rows if json.loads(row["options"])[name] == drawn[name])
        return cheapest["item_id"], f"{name} {drawn[name]}"

    def _entry(self, person: sqlite3.Row, status: str) -> sqlite3.Row | None:
        """Return an item of a customer's order that its product and the order's status name."""
        rows: list[sqlite3.Row] = self.database.execute(
            "SELECT order_id, item_id, product_id, name, payment_id FROM orders "
            "JOIN order_items USING (order_id) JOIN items USING (item_id) "
            "JOIN products USING (product_id) WHERE customer_id = ? AND status = ? "
            "AND order_items.state = 'ordered' ORDER BY order_id, item_id",
            (person["customer_id"], status),
        ).fetchall()
        names = [row["name"] for row in rows]
        single = [row for row in rows if names.count(row["name"]) == 1]
        return self.chance.choice(single) if single else None

    def _ordering(
        self, kind: str, pay: Callable[[sqlite3.Row], tuple[str, str, tuple[Need, ...]] | None]
    ) -> Wish | None:
        person = self._person()
        row = self.chance.choice(
            self.database.execute("SELECT * FROM products ORDER BY product_id").fetchall()
        )
        chosen = self._variant(row["product_id"])
        paid = pay(person)
        if chosen is None or paid is None:
            return None
        payment, said, needs = paid
        text = (
            f"For {self._named(person)}: please order one {row['name']}, the cheapest available "
            f"with {chosen[1]}. Pay with {said}."
        )
        arguments = {
            "customer_id": person["customer_id"],
            "item_id": chosen[0],
            "payment_id": payment,
        }
        return Wish(kind=kind, text=text, deed=("place_order", arguments), needs=needs)

    def _order(self) -> Wish | None:
        return self._ordering("order", lambda person: (*self._payment(person), ()))

    def _old_payment(self) -> tuple[str, str, tuple[Need, ...]] | None:
        found = self._back("placed")
        if found is None or found[1].values["payment"].startswith("CR-"):
            return None
        payment = found[1].values["payment"]
        need = Need(value=payment, request=found[1].request, again=True)
        return payment, f"the payment method of the {found[0]} order you placed", (need,)

    def _order_with_old_payment(self) -> Wish | None:
        return self._ordering("order, old payment", lambda _: self._old_payment())

    def _order_with_credit(self) -> Wish | None:
        found = self._back("cancelled", once=True)
        if found is None:
            return None
        word, past = found
        code = past.values["code"]
        need = Need(value=code, request=past.request, again=False)
        said = f"the credit from the {word} order you cancelled"
        wish = self._ordering("order, credit", lambda _: (code, said, (need,)))
        past.used = wish is not None
        return wish

    def _cancel(self) -> Wish | None:
        person = self._person()
        entry = self._entry(person, "pending")
        if entry is None:
            return None
        text = (
            f"For {self._named(person)}: please cancel the pending order with the {entry['name']}."
        )
        return Wish(kind="cancel", text=text, deed=("cancel_order", {"order_id": entry[0]}))

    def _cancel_placed(self) -> Wish | None:
        found = self._back("placed", once=True)
        if found is None:
            return None
        order = found[1].values["order"]
        if order_of(self.database, order)["status"] != "pending":
            return None
        found[1].used = True
        return Wish(
            kind="cancel placed",
            text=f"Please cancel the {found[0]} order you placed.",
            deed=("cancel_order", {"order_id": order}),
            needs=(Need(value=order, request=found[1].request, again=True),),
        )

    def _exchange(self) -> Wish | None:
        person = self._person()
        entry = self._entry(person, "delivered")
        chosen = entry and self._variant(entry["product_id"], other_than=entry["item_id"])
        if entry is None or chosen is None:
            return None
        text = (
            f"For {self._named(person)}: please exchange the {entry['name']} from the delivered "
            f"order for the cheapest available other one with {chosen[1]}. Use the payment method "
            "of that order for the difference."
        )
        arguments = {
            "order_id": entry["order_id"],
            "item_id": entry["item_id"],
            "new_item_id": chosen[0],
            "payment_id": entry["payment_id"],
        }
        return Wish(kind="exchange", text=text, deed=("exchange_item", arguments))

    def _returning(self, kind: str, *, old: bool) -> Wish | None:
        person = self._person()
        entry = self._entry(person, "delivered")
        paid = self._old_payment() if old else (*self._payment(person), ())
        if entry is None or paid is None:
            return None
        payment, said, needs = paid
        text = (
            f"For {self._named(person)}: please return the {entry['name']} from the delivered "
            f"order. Refund to {said}."
        )
        arguments = {
            "order_id": entry["order_id"],
            "item_id": entry["item_id"],
            "payment_id": payment,
        }
        return Wish(kind=kind, text=text, deed=("return_item", arguments), needs=needs)

    def _return(self) -> Wish | None:
        return self._returning("return", old=False)

    def _return_to_old_payment(self) -> Wish | None:
        return self._returning("return, old payment", old=True)

    def _redirect(self) -> Wish | None:
        person, other = self.chance.sample(self._people, 2)
        entry = self._entry(person, "pending")
        if entry is None:
            return None
        order = order_of(self.database, entry["order_id"])
        old, new = _bare(order["address"]), {name: other[name] for name in _ADDRESS}
        if old == new:
            return None
        text = (
            f"For {self._named(person)}: please send the pending order with the {entry['name']} "
            f"to the address of {self._named(other)}."
        )
        if not any(past.values["order"] == order["order_id"] for past in self._all("redirected")):
            self._add("redirected", len(self.wishes), order=order["order_id"], address=old)
        else:
            return None
        arguments = {"order_id": order["order_id"], **new}
        return Wish(kind="redirect", text=text, deed=("change_order_address", arguments))

    def _undo_redirect(self) -> Wish | None:
        found = self._back("redirected", once=True)
        if found is None:
            return None
        word, past = found
        order, address = past.values["order"], past.values["address"]
        if order_of(self.database, order)["status"] != "pending":
            return None
        past.used = True
        return Wish(
            kind="undo redirect",
            text=f"Please send the {word} order you redirected back to the address it had before.",
            deed=("change_order_address", {"order_id": order, **address}),
            needs=(
                Need(value=order, request=past.request, again=True),
                Need(value=address["street"], request=past.request, again=False),
                Need(value=address["zip"], request=past.request, again=False),
            ),
        )

    def _book(self) -> Wish | None:
        person = self._person()
        service, city = self.chance.choice(SERVICES), self.chance.choice(sorted(CITIES))
        date = self.chance.choice(DAYS)
        slot = self._earliest(service, city, date, date)
        if slot is None:
            return None
        payment, said = self._payment(person)
        text = (
            f"For {self._named(person)}: please book the earliest free slot for {service} in "
            f"{city} on {date}. Pay with {said}."
        )
        return self._booking("book", person, slot["slot_id"], payment, text, ())

    def _booking(
        self,
        kind: str,
        person: sqlite3.Row,
        slot: str,
        payment: str,
        text: str,
        needs: tuple[Need, ...],
    ) -> Wish:
        arguments = {
            "customer_id": person["customer_id"],
            "slot_id": slot,
            "payment_id": payment,
        }
        return Wish(kind=kind, text=text, deed=("book_slot", arguments), needs=needs)

    def _earliest(
        self, service: str, city: str, first: str, last: str, technician: str = ""
    ) -> sqlite3.Row | None:
        rows = self.database.execute(
            "SELECT * FROM slots WHERE service = ? AND city = ? AND date BETWEEN ? AND ? AND free "
            "ORDER BY date, time, slot_id",
            (service, city, first, last),
        )
        found: Iterator[sqlite3.Row] = (
            row for row in rows if not technician or row["technician"] == technician
        )
        return next(found, None)

    def _book_technician(self) -> Wish | None:
        found = self._back("booked")
        if found is None:
            return None
        word, past = found
        if past.used:
            # It was moved, perhaps to another technician, so the request would be ambiguous.
            return None
        person = self._person()
        start = self.chance.randrange(len(DAYS) - 6)
        span = (DAYS[start], DAYS[start + 6])
        technician = past.values["technician"]
        service, city = past.values["service"], past.values["city"]
        slot = self._earliest(service, city, *span, technician)
        if slot is None:
            return None
        payment, said = self._payment(person)
        text = (
            f"For {self._named(person)}: please book the earliest free slot for {service} in "
            f"{city} from {span[0]} to {span[1]} with the technician of the {word} visit you "
            f"booked. Pay with {said}."
        )
        needs = (Need(value=technician, request=past.request, again=True),)
        return self._booking("book technician", person, slot["slot_id"], payment, text, needs)

    def _move(self) -> Wish | None:
        found = self._back("booked", once=True)
        if found is None:
            return None
        word, past = found
        date = self.chance.choice(DAYS)
        slot = self._earliest(past.values["service"], past.values["city"], date, date)
        if slot is None:
            return None
        past.used = True
        booking = past.values["booking"]
        return Wish(
            kind="move",
            text=f"Please move the {word} visit you booked to the earliest free slot on {date}.",
            deed=("move_booking", {"booking_id": booking, "slot_id": slot["slot_id"]}),
            needs=(Need(value=booking, request=past.request, again=True),),
        )

    def _all(self, what: str) -> list[_Past]:
        return self._past.get(what, [])

    def _ask_orders(self) -> Wish | None:
        person = self._person()
        rows = self.database.execute(
            "SELECT order_id FROM orders WHERE customer_id = ? AND placed < ? "
            "ORDER BY placed DESC, order_id LIMIT 2",
            (person["customer_id"], TODAY),
        ).fetchall()
        orders = [order_of(self.database, row[0]) for row in rows]
        if any(order["status"] != "pending" for order in orders):
            return None
        if any(past.values["person"] == person["first_name"] for past in self._all("pairs")):
            return None
        values = {"person": person["first_name"], "orders": [order["order_id"] for order in orders]}
        self._add("pairs", len(self.wishes), **values)
        text = (
            f"For {self._named(person)}: please look up the two newest orders from before today. "
            "I will decide later."
        )
        return Wish(kind="look at orders", text=text)

    def _pick_order(self) -> Wish | None:
        found = self._back("pairs", once=True)
        if found is None:
            return None
        word, past = found
        pair = [order_of(self.database, order) for order in past.values["orders"]]
        cheaper = min(pair, key=lambda order: order["total"])
        person = next(one for one in self._people if one["first_name"] == past.values["person"])
        payment, said = self._payment(person)
        if cheaper["status"] != "pending" or payment == cheaper["payment_id"]:
            return None
        past.used = True
        needs = [Need(value=order["order_id"], request=past.request, again=True) for order in pair]
        needs += [Need(value=str(o["total"]), request=past.request, again=True) for o in pair]
        return Wish(
            kind="pick order",
            text=(
                f"Of the {word} two orders you looked up, please change the payment of the cheaper "
                f"one to {said}."
            ),
            deed=(
                "change_order_payment",
                {"order_id": cheaper["order_id"], "payment_id": payment},
            ),
            needs=tuple(needs),
        )

    def _ask_products(self) -> Wish | None:
        rows = self.database.execute("SELECT * FROM products ORDER BY name").fetchall()
        pair = self.chance.sample(rows, 2)
        self._add("kinds", len(self.wishes), products=[row["product_id"] for row in pair])
        return Wish(
            kind="look at products",
            text=(
                f"Please look up what there is of {pair[0]['name']} and of {pair[1]['name']}. "
                "I will decide later."
            ),
        )

    def _pick_product(self) -> Wish | None:
        found = self._back("kinds", once=True)
        if found is None:
            return None
        word, past = found
        rows = self.database.execute(
            "SELECT item_id, price FROM items WHERE available AND product_id IN (?, ?) "
            "ORDER BY price",
            past.values["products"],
        ).fetchall()
        if len(rows) < 2 or rows[0]["price"] == rows[1]["price"]:
            return None
        past.used = True
        person = self._person()
        payment, said = self._payment(person)
        text = (
            f"For {self._named(person)}: of the {word} two products you looked up, please order "
            f"the cheapest available item. Pay with {said}."
        )
        arguments = {
            "customer_id": person["customer_id"],
            "item_id": rows[0]["item_id"],
            "payment_id": payment,
        }
        need = Need(value=rows[0]["item_id"], request=past.request, again=True)
        return Wish(kind="pick product", text=text, deed=("place_order", arguments), needs=(need,))

    def _ask_slots(self) -> Wish | None:
        service, city = self.chance.choice(SERVICES), self.chance.choice(sorted(CITIES))
        start = self.chance.randrange(len(DAYS) - 6)
        span = (DAYS[start], DAYS[start + 6])
        cheapest = self._cheapest(service, city, *span)
        if cheapest is None:
            return None
        values = {"service": service, "city": city, "span": span, "slot": cheapest["slot_id"]}
        self._add("slots", len(self.wishes), **values)
        return Wish(
            kind="look at slots",
            text=(
                f"Please look up the slots for {service} in {city} from {span[0]} to {span[1]}. "
                "I will decide later."
            ),
        )

    def _cheapest(self, service: str, city: str, first: str, last: str) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self.database.execute(
            "SELECT * FROM slots WHERE service = ? AND city = ? AND date BETWEEN ? AND ? AND free "
            "ORDER BY price LIMIT 1",
            (service, city, first, last),
        ).fetchone()
        return row

    def _pick_slot(self) -> Wish | None:
        found = self._back("slots", once=True)
        if found is None:
            return None
        word, past = found
        values = past.values
        slot = self._cheapest(values["service"], values["city"], *values["span"])
        if slot is None or slot["slot_id"] != values["slot"]:
            # The facts looked up then must still hold: nobody asks for a slot that is gone.
            return None
        past.used = True
        person = self._person()
        payment, said = self._payment(person)
        text = (
            f"For {self._named(person)}: please book the cheapest free one of the {word} slots you "
            f"looked up. Pay with {said}."
        )
        need = Need(value=slot["slot_id"], request=past.request, again=True)
        return self._booking("pick slot", person, slot["slot_id"], payment, text, (need,))


_ADDRESS = ("street", "city", "state", "zip")


def _bare(address: Mapping[str, str]) -> dict[str, str]:
    return {name: address[name] for name in _ADDRESS}
