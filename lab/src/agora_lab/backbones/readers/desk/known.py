"""What a prompt at the desk tells about customers, orders, products and visits.

Each value is taken from where the prompt has it: in a whole result, in what is left of one, or in
a call. Where it stands nowhere any more, the call that shows it again is raised; where no tool
does, `Lost` is.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agora_lab.backbones.readers.desk.notes import Event, Notes
from agora_lab.backbones.readers.desk.wishes import (
    BOOKING,
    CANCELLING,
    PLACING,
    Wish,
    read_payment,
)

_ORDER, _BOOKING, _CREDIT = r"#W\d{7}", r"BK-\d{7}", r"CR-\d{7}"
_PAYMENT, _TECHNICIAN = r"(?:credit_card|paypal)_\d{7}", r"tech_\d{4}"
_ADDRESS = ("street", "city", "state", "zip")
WRITES = frozenset(
    "place_order cancel_order return_item exchange_item change_order_address "
    "change_order_payment book_slot move_booking".split()
)
"""The tools that change something."""


class Call(Exception):  # noqa: N818 - no error: what has to be called next
    """Ends the search for a value with the call to make."""

    def __init__(self, tool: str, **arguments: Any) -> None:
        super().__init__(tool)
        self.text = f"{tool} {json.dumps(arguments)}"


class Lost(Exception):  # noqa: N818 - no error: nothing more can be found out
    """Ends the search for a value that no tool shows."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a prompt tells; a value that has to be looked up ends the search."""

    notes: Notes

    # Where earlier requests are found, and what was done for them.

    def earlier(self, kinds: tuple[str, ...], nth: int) -> tuple[int, Wish]:
        """Return the nth request of some kinds, and its number."""
        found = [
            (at, wish)
            for at, wish in enumerate(self.notes.wishes)
            if wish is not None and wish.kind in kinds
        ]
        if nth >= len(found):
            raise Lost
        return found[nth]

    def now(self, tool: str) -> list[Event]:
        """Return the calls of a tool for the newest request."""
        return [e for e in self.notes.events if e.tool == tool and e.request == self.notes.now]

    def done(self, tool: str, request: int) -> Event | None:
        """Return the call that did a request, if anything of it is left."""
        for event in self.notes.events:
            if event.tool == tool and event.request == request and not event.failed:
                return event
        return None

    def placed(self, nth: int) -> str:
        """Return the id of an order that was placed."""
        request, wish = self.earlier(PLACING, nth)
        event = self.done("place_order", request)
        if event is not None:
            if event.result is not None:
                return str(event.result["order_id"])
            if order := event.said(_ORDER):
                return order
        if wish.kind == "order":
            names = [wish["product"]]
        else:
            looked = self.earlier(("look at products",), wish.nth)[1]
            names = [looked["product"], looked["other"]]
        for key in self.orders_of(wish["first"], since=request):
            order_ = self.order_named(key)
            placed_now = order_["placed"] == self.notes.today
            if placed_now and any(item["name"] in names for item in order_["items"]):
                return key
        raise Lost

    def redirected(self, request: int, wish: Wish) -> str:
        """Return the id of an order that was sent elsewhere."""
        event = self.done("change_order_address", request)
        if event is not None and (order := event.given("order_id", _ORDER)):
            return order
        return self.order_with(wish, "pending")

    def address_before(self, request: int, order: str) -> Mapping[str, str]:
        """Return where an order went before it was redirected, if the prompt still has it."""
        found: Mapping[str, str] = {}
        for event in self.notes.events:
            if event.request > request:
                break
            if event.request == request and event.tool == "change_order_address":
                break
            if event.result is not None:
                if event.result.get("order_id") == order:
                    found = {name: event.result["address"][name] for name in _ADDRESS}
            elif order == event.given("order_id", _ORDER):
                values = {name: event.pairs(name) for name in _ADDRESS}
                if all(values.values()):
                    found = {name: own[0] for name, own in values.items()}
        return found

    def booked(self, nth: int) -> str:
        """Return the id of a visit that was booked."""
        request, wish = self.earlier(BOOKING, nth)
        event = self.done("book_slot", request)
        if event is not None:
            if event.result is not None:
                return str(event.result["booking_id"])
            if booking := event.said(_BOOKING):
                return booking
        visit = self.visit(wish)
        for key in self.bookings_of(wish["first"], since=request):
            found = self.booking_named(key)["visit"]
            if (found["service"], found["city"]) == (visit["service"], visit["city"]):
                return key
        raise Lost

    def technician(self, nth: int) -> str:
        """Return who comes for a visit that was booked."""
        request, _ = self.earlier(BOOKING, nth)
        event = self.done("book_slot", request)
        if event is not None:
            if event.result is not None:
                return str(event.result["visit"]["technician"])
            if technician := event.said(_TECHNICIAN):
                return technician
        return str(self.booking_named(self.booked(nth))["visit"]["technician"])

    def visit(self, wish: Wish) -> Wish:
        """Return the request that says what a visit was for, and where."""
        if wish.kind == "pick slot":
            return self.earlier(("look at slots",), wish.nth)[1]
        return wish

    def orders_read(self, request: int) -> list[str]:
        """Return the orders that were read for a request, as far as it can be told."""
        found = [
            event.given("order_id", _ORDER)
            for event in self.notes.events
            if event.tool == "get_order" and event.request == request and not event.failed
        ]
        return list(dict.fromkeys(order for order in found if order))

    def pair(self, request: int, wish: Wish) -> list[str]:
        """Return the two orders that were looked up for a request, or are to be."""
        if request != self.notes.now:
            found = self.orders_read(request)
            if len(found) == 2:
                return found
        older = []
        for key in self.orders_of(wish["first"], since=-1):
            if self.was_placed_today(key):
                continue
            if self.order_named(key)["placed"] < self.notes.today:
                older.append(key)
            if len(older) == 2:
                return older
        raise Lost

    def was_placed_today(self, key: str) -> bool:
        """Tell whether the prompt says that an order was placed in this conversation."""
        return any(
            event.tool == "place_order"
            and (event.result or {}).get("order_id", event.said(_ORDER)) == key
            for event in self.notes.events
        )

    # Values, from the prompt or by a tool.

    def results(self, tool: str = "") -> Iterator[Event]:
        """Yield the events whose results are whole, the newest first."""
        # Newest first: what a call changed counts, not what was read before.
        for event in reversed(self.notes.events):
            if event.result is not None and (not tool or event.tool == tool):
                yield event

    def customer_id(self, first: str) -> str:
        """Return the id of a customer by first name."""
        if first not in self.notes.people:
            raise Lost
        last, email = self.notes.people[first]
        shape = f"{first}_{last}_".lower()
        for event in reversed(self.notes.events):
            if event.result is not None:
                key = event.result.get("customer_id", "")
            else:
                key = event.said(rf"{shape}\d{{4}}")
            key = key or str(event.arguments.get("customer_id", ""))
            if key.startswith(shape):
                return str(key)
        raise Call("find_customer", email=email)

    def profile(self, first: str, *, since: int = -1) -> Mapping[str, Any]:
        """Return what is known of a customer, from later than some request."""
        customer = self.customer_id(first)
        for event in self.results("get_customer"):
            if event.request > since and event.result["customer_id"] == customer:
                found: Mapping[str, Any] = event.result
                return found
        raise Call("get_customer", customer_id=customer)

    def home(self, first: str) -> dict[str, str]:
        """Return where a customer lives."""
        customer = self.customer_id(first)
        for event in reversed(self.notes.events):
            if event.tool != "get_customer" or event.result is not None:
                continue
            if customer in (event.arguments.get("customer_id"), event.said(customer)):
                values = {name: event.pairs(name) for name in _ADDRESS}
                if all(values.values()):
                    return {name: own[0] for name, own in values.items()}
        profile = self.profile(first)
        return {name: profile["address"][name] for name in _ADDRESS}

    def payment(self, said: str) -> str:
        """Return the id that a customer's words for a payment stand for."""
        wish = _payment_words(said)
        if wish["kind"] == "credit":
            request, _ = self.earlier(CANCELLING, int(wish["nth"]))
            event = self.done("cancel_order", request)
            if event is not None:
                if event.result is not None:
                    return str(event.result["credit"]["code"])
                if code := event.said(_CREDIT):
                    return code
            raise Lost
        if wish["kind"] == "old":
            request, placed = self.earlier(PLACING, int(wish["nth"]))
            return self.paid_then(request) or self.payment(placed["pay"])
        return self.paid_before(said) or self.method(wish["first"], wish["brand"], wish["four"])

    def paid_then(self, request: int) -> str:
        """Return what a request was paid with, if the call is still there."""
        for event in self.notes.events:
            writes = event.request == request and event.tool in WRITES and not event.failed
            if writes and (named := event.given("payment_id", _PAYMENT)):
                return named
        return ""

    def paid_before(self, said: str) -> str:
        """Return the id that stood for the same words in an earlier request, if it is there."""
        for at, wish in enumerate(self.notes.wishes[:-1]):
            alike = wish is not None and wish.said.get("pay") == said
            if alike and (paid := self.paid_then(at)):
                return paid
        return ""

    def method(self, first: str, brand: str, four: str) -> str:
        """Return a payment method of a customer by brand and last digits, or the PayPal account."""
        customer = self.customer_id(first)
        for event in reversed(self.notes.events):
            if event.tool != "get_customer" or event.result is not None:
                continue
            if customer in (event.arguments.get("customer_id"), event.said(customer)):
                found = event.said(
                    rf"credit_card_\d{{7}}(?= {four}\b|[^;]*last_four=\"?{four}\b)"
                    if four
                    else r"paypal_\d{7}"
                )
                if found:
                    return found
        for key, method in self.profile(first)["payment_methods"].items():
            if four and (method.get("brand"), method.get("last_four")) == (brand, four):
                return str(key)
            if not four and method["kind"] == "paypal":
                return str(key)
        raise Lost

    def orders_of(self, first: str, *, since: int) -> list[str]:
        """Return a customer's orders, the newest first."""
        customer = self.customer_id(first)
        profile = self.profile(first, since=since)
        placed = [
            str(event.result["order_id"])
            for event in self.results("place_order")
            if event.result["customer_id"] == customer
        ]
        return list(dict.fromkeys([*placed, *profile["orders"]]))

    def bookings_of(self, first: str, *, since: int) -> list[str]:
        """Return a customer's visits."""
        return list(self.profile(first, since=since)["bookings"])

    def knows_order(self, key: str) -> bool:
        """Tell whether an order is there whole."""
        return any(event.result.get("order_id") == key for event in self.results())

    def order_named(self, key: str) -> Mapping[str, Any]:
        """Return an order."""
        for event in self.results():
            if event.result.get("order_id") == key:
                found: Mapping[str, Any] = event.result
                return found
        raise Call("get_order", order_id=key)

    def booking_named(self, key: str) -> Mapping[str, Any]:
        """Return a visit."""
        for event in self.results():
            if event.result.get("booking_id") == key:
                found: Mapping[str, Any] = event.result
                return found
        raise Call("get_booking", booking_id=key)

    def total(self, key: str) -> float:
        """Return what an order costs."""
        for event in reversed(self.notes.events):
            if event.result is None and key == event.given("order_id", _ORDER):
                totals = event.pairs("total")
                if totals:
                    return float(totals[0])
        return float(self.order_named(key)["total"])

    def order_with(self, wish: Wish, status: str) -> str:
        """Return the id of a customer's order with a product: a trace of it may be enough."""
        for event in reversed(self.notes.events):
            if event.result is None and wish["product"] in event.pairs("name"):
                key = event.given("order_id", _ORDER)
                fits = key and status in event.pairs("status") and not self.knows_order(key)
                if fits and self.is_of(event, key, wish["first"]):
                    return key
        return str(self.entry(wish, status)[0]["order_id"])

    def is_of(self, event: Event, key: str, first: str) -> bool:
        """Tell whether what is left of an order says whose it is."""
        if named := event.pairs("customer_id"):
            return self.customer_id(first) in named
        wish = self.notes.wishes[event.request]
        if wish is not None and wish.said.get("first") == first:
            return True
        customer = self.customer_id(first)
        profiles = (event.result for event in self.results("get_customer"))
        return any(key in one["orders"] for one in profiles if one["customer_id"] == customer)

    def entry(self, wish: Wish, status: str) -> tuple[Mapping[str, Any], str]:
        """Return a customer's order of some status with a product, and the item of it."""
        customer = self.customer_id(wish["first"])
        known: set[str] = set()
        for event in self.results():
            order = event.result
            if order.get("customer_id") != customer or order.get("order_id", "") in known:
                continue
            known.add(order.get("order_id", ""))
            for item in order.get("items", ()):
                fits = item["name"] == wish["product"] and item["state"] == "ordered"
                if fits and order["status"] == status:
                    return order, str(item["item_id"])
        unknown = [key for key in self.orders_of(wish["first"], since=-1) if key not in known]
        # First what a trace says to hold the product, then what was not read yet for this
        # request, then what was read longest ago.
        read_now = self.orders_read(self.notes.now)
        unknown.sort(
            key=lambda key: (
                not (self.names(key, wish["product"]) and key not in read_now),
                read_now.index(key) + 1 if key in read_now else 0,
            )
        )
        for key in unknown:
            raise Call("get_order", order_id=key)
        if not self.now("get_customer"):
            # An order may have been placed since the customer was looked up.
            raise Call("get_customer", customer_id=customer)
        raise Lost

    def names(self, key: str, product: str) -> bool:
        """Tell whether what is left of an order names a product."""
        return any(
            product in event.tail
            for event in self.notes.events
            if event.result is None and key == event.given("order_id", _ORDER)
        )

    def product_id(self, name: str) -> str:
        """Return the id of a product by its name."""
        for event in self.results():
            if event.tool == "list_products" and name in event.result:
                return str(event.result[name])
            if event.result.get("name") == name:
                return str(event.result["product_id"])
            for item in event.result.get("items", ()):
                if item["name"] == name:
                    return str(item["product_id"])
        for event in self.notes.events:
            if event.tool != "list_products" or event.result is not None:
                continue
            if found := event.said(rf"(?<=\b{name}[= ])\d{{10}}"):
                return found
        raise Call("list_products")

    def cheapest(
        self, names: list[str], option: str = "", value: str = "", *, other_than: str = ""
    ) -> str:
        """Return the cheapest available item of some products."""
        found: list[tuple[float, str]] = []
        for name in names:
            for item in self.variants(name).values():
                fits = not option or item["options"].get(option) == value
                if item["available"] and fits and item["item_id"] != other_than:
                    found.append((item["price"], item["item_id"]))
        if not found:
            raise Lost
        return min(found)[1]

    def variants(self, name: str) -> Mapping[str, Any]:
        """Return the items of a product."""
        for event in self.results("get_product"):
            if event.result["name"] == name:
                found: Mapping[str, Any] = event.result["variants"]
                return found
        raise Call("get_product", product_id=self.product_id(name))

    def slots(self, visit: Wish, start: str, end: str, *, fresh: bool = False) -> list[Any]:
        """Return the slots of a search; `fresh` ones are of the newest request."""
        wanted = search(visit, start, end)
        for event in self.results("search_slots"):
            if same(event, wanted.text) and (not fresh or event.request == self.notes.now):
                return list(event.result["slots"])
        raise wanted

    def earliest(self, visit: Wish, start: str, end: str = "", technician: str = "") -> str:
        """Return the earliest free slot, of one technician where that is asked for."""
        slots = self.slots(visit, start, end or start, fresh=True)
        for slot in slots:
            if slot["free"] and technician in ("", slot["technician"]):
                return str(slot["slot_id"])
        raise Lost


def same(event: Event, call: str) -> bool:
    """Tell whether an event is of a call."""
    return call == f"{event.tool} {json.dumps(event.arguments)}"


def search(visit: Wish, start: str, end: str) -> Call:
    """Return the call that looks for slots."""
    span = {"from": start, "to": end}
    return Call("search_slots", service=visit["service"], city=visit["city"], **span)


def _payment_words(said: str) -> Mapping[str, str]:
    """Return what a customer's words for a payment point to."""
    found = read_payment(said)
    if found is None:
        raise Lost
    return found
