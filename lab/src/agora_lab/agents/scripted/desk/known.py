"""The facts in a prompt about customers, orders, products and visits of the desk.

Each value comes from the prompt: from a whole result, from the rest of one, or from a call. For a
missing value the call that shows it again is raised, or `Lost` if no tool shows it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agora_lab.agents.scripted.desk.notes import Event, Notes
from agora_lab.agents.scripted.desk.seen import (
    ADDRESS,
    ORDER,
    Order,
    address_in,
    complete,
    completed,
    order_of,
    orders,
)
from agora_lab.agents.scripted.desk.wishes import (
    BOOKING,
    CANCELLING,
    PLACING,
    Wish,
    read_payment,
)

_BOOKING, _CREDIT, _SLOT, _PRODUCT = r"BK-\d{7}", r"CR-\d{7}", r"SL-\d{7}", r"\d{10}"
_PAYMENT, _TECHNICIAN = r"(?:credit_card|paypal)_\d{7}", r"tech_\d{4}"
WRITES = frozenset(
    "place_order cancel_order return_item exchange_item change_order_address "
    "change_order_payment book_slot move_booking".split()
)
"""The tools that change something."""


class Call(Exception):  # noqa: N818 - not an error: the next call to make
    """Ends the search for a value with the call to make."""

    def __init__(self, tool: str, **arguments: Any) -> None:
        super().__init__(tool)
        self.text = f"{tool} {json.dumps(arguments)}"


class Lost(Exception):  # noqa: N818 - no error: nothing more can be found out
    """Ends the search for a value that no tool shows."""


@dataclass(frozen=True, slots=True)
class Known:
    """The facts in a prompt. A value that has to be looked up ends the search."""

    notes: Notes
    orders: Mapping[str, Order] = field(init=False)
    """The facts of the prompt about each order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", orders(self.notes.events))

    # The earlier requests, and the actions for them.

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
            if order := event.said(ORDER):
                return order
        if wish.kind == "order":
            names = [wish["product"]]
        else:
            looked = self.earlier(("look at products",), wish.nth)[1]
            names = [looked["product"], looked["other"]]
        for key in self.orders_of(wish["first"], since=request):
            order_ = self.order_named(key)
            placed_now = order_.fields["placed"] == self.notes.today
            if placed_now and any(map(order_.names, names)):
                return key
        raise Lost

    def redirected(self, request: int, wish: Wish) -> str:
        """Return the id of an order that was sent elsewhere."""
        event = self.done("change_order_address", request)
        if event is not None and (order := event.given("order_id", ORDER)):
            return order
        return self.order_with(wish, "pending")

    def address_before(self, request: int, order: str) -> Mapping[str, str]:
        """Return the address of an order before it was redirected, if the prompt has it."""
        events = self.notes.events
        redirected = next(
            (
                at
                for at, event in enumerate(events)
                if event.request == request and event.tool == "change_order_address"
            ),
            next((at for at, event in enumerate(events) if event.request > request), len(events)),
        )
        seen = orders(events, before=redirected).get(order, Order(order)).fields
        return completed({name: seen[name] for name in ADDRESS if name in seen}, events)

    def booked(self, nth: int) -> str:
        """Return the id of a visit that was booked."""
        request, wish = self.earlier(BOOKING, nth)
        event = self.done("book_slot", request)
        slot = ""
        if event is not None:
            if event.result is not None:
                return str(event.result["booking_id"])
            if booking := event.said(_BOOKING):
                return booking
            slot = event.given("slot_id", _SLOT)
        visit = self.visit(wish)
        for key in self.bookings_of(wish["first"], since=request):
            found = self.booking_named(key)["visit"]
            if slot and not self.was_moved(key):
                if found["slot_id"] == slot:
                    return key
            elif (found["service"], found["city"]) == (visit["service"], visit["city"]):
                return key
        raise Lost

    def was_moved(self, key: str) -> bool:
        """Return True if the prompt shows that a visit was moved."""
        return any(
            event.tool == "move_booking" and event.given("booking_id", _BOOKING) == key
            for event in self.notes.events
        )

    def technician(self, nth: int) -> str:
        """Return the technician of a booked visit."""
        request, _ = self.earlier(BOOKING, nth)
        event = self.done("book_slot", request)
        if event is not None:
            if event.result is not None:
                return str(event.result["visit"]["technician"])
            if technician := event.said(_TECHNICIAN):
                return technician
            slot = event.given("slot_id", _SLOT)
            for shown in (one for other in self.notes.events for one in other.slots):
                if shown.get("slot_id") == slot and "technician" in shown:
                    return str(shown["technician"])
        return str(self.booking_named(self.booked(nth))["visit"]["technician"])

    def visit(self, wish: Wish) -> Wish:
        """Return the request with the purpose and the address of a visit."""
        if wish.kind == "pick slot":
            return self.earlier(("look at slots",), wish.nth)[1]
        return wish

    def orders_read(self, request: int) -> list[str]:
        """Return the orders known to have been read for a request."""
        found = [
            event.given("order_id", ORDER)
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
            seen = self.orders.get(key, Order(key)).fields
            if (seen.get("placed") or self.order_named(key).fields["placed"]) < self.notes.today:
                older.append(key)
            if len(older) == 2:
                return older
        raise Lost

    def was_placed_today(self, key: str) -> bool:
        """Return True if the prompt shows that an order was placed in this conversation."""
        return any(
            event.tool == "place_order" and order_of(event) == key for event in self.notes.events
        )

    # Values, from the prompt or by a tool.

    def results(self, tool: str = "") -> Iterator[Event]:
        """Yield the events with whole results, newest first."""
        # Newest first: a value changed by a call replaces one that was read before.
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
        """Return the facts about a customer after a request."""
        customer = self.customer_id(first)
        for event in self.results("get_customer"):
            if event.request > since and event.result["customer_id"] == customer:
                found: Mapping[str, Any] = event.result
                return found
        raise Call("get_customer", customer_id=customer)

    def profiles_left(self, first: str) -> Iterator[Event]:
        """Yield the rest of shortened customer records, newest first."""
        customer = self.customer_id(first)
        for event in reversed(self.notes.events):
            left = event.tool == "get_customer" and event.result is None and not event.failed
            if left and customer in (event.arguments.get("customer_id"), event.said(customer)):
                yield event

    def home(self, first: str) -> dict[str, str]:
        """Return a customer's address."""
        customer = self.customer_id(first)
        if not any(
            event.result["customer_id"] == customer for event in self.results("get_customer")
        ):
            for event in self.profiles_left(first):
                for record in event.told.records:
                    found = (
                        completed(address_in(record), self.notes.events)
                        if "street" in record
                        else {}
                    )
                    if complete(found):
                        return found
        profile = self.profile(first)
        return {name: profile["address"][name] for name in ADDRESS}

    def payment(self, said: str) -> str:
        """Return the id of the payment that a customer's words mean."""
        wish = _payment_words(said)
        if wish["kind"] == "credit":
            request, _ = self.earlier(CANCELLING, int(wish["nth"]))
            event = self.done("cancel_order", request)
            if event is not None:
                if event.result is not None:
                    return str(event.result["credit"]["code"])
                if code := self.code_left(event):
                    return code
            raise Lost
        if wish["kind"] == "old":
            request, placed = self.earlier(PLACING, int(wish["nth"]))
            return self.paid_then(request) or self.payment(placed["pay"])
        return self.paid_before(said) or self.method(wish["first"], wish["brand"], wish["four"])

    def code_left(self, event: Event) -> str:
        """Return the code of a credit from the rest of a cancelled order, or nothing.

        The order may have been paid with another credit, whose code is a different one.
        """
        if codes := event.told.values("code"):
            return codes[0]
        paid = {str(other.arguments.get("payment_id")) for other in self.notes.events}
        bare = [name for name in event.told.names if re.fullmatch(_CREDIT, name)]
        return next((code for code in reversed(bare) if code not in paid), "")

    def paid_then(self, request: int) -> str:
        """Return the payment of a request, if its call is still in the prompt."""
        for event in self.notes.events:
            writes = event.request == request and event.tool in WRITES and not event.failed
            if writes and (named := event.given("payment_id", _PAYMENT)):
                return named
        return ""

    def paid_before(self, said: str) -> str:
        """Return the id that an earlier request had for the same words, if it is there."""
        for at, wish in enumerate(self.notes.wishes[:-1]):
            alike = wish is not None and wish.said.get("pay") == said
            if alike and (paid := self.paid_then(at)):
                return paid
        return ""

    def method(self, first: str, brand: str, four: str) -> str:
        """Return a payment method of a customer by brand and last digits, or the PayPal account."""
        for event in self.profiles_left(first):
            if found := _method_in(event, brand, four):
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
            order_of(event)
            for event in reversed(self.notes.events)
            if event.tool == "place_order" and not event.failed
        ]
        own = [
            key for key in placed if key and self.orders[key].fields.get("customer_id") == customer
        ]
        return list(dict.fromkeys([*own, *profile["orders"]]))

    def orders_left(self, first: str) -> list[str]:
        """Return those of a customer's orders that are listed where the list is not whole."""
        found: dict[str, None] = {}
        for event in self.profiles_left(first):
            found |= dict.fromkeys(re.findall(ORDER, event.told.text))
        return list(found)

    def bookings_of(self, first: str, *, since: int) -> list[str]:
        """Return a customer's visits."""
        return list(self.profile(first, since=since)["bookings"])

    def order_named(self, key: str) -> Order:
        """Return an order of which everything is known."""
        order = self.orders.get(key)
        if order is not None and order.whole:
            return order
        raise Call("get_order", order_id=key)

    def booking_named(self, key: str) -> Mapping[str, Any]:
        """Return a visit."""
        for event in self.results():
            if event.result.get("booking_id") == key:
                found: Mapping[str, Any] = event.result
                return found
        raise Call("get_booking", booking_id=key)

    def total(self, key: str) -> float:
        """Return the total of an order."""
        seen = self.orders.get(key, Order(key)).fields
        return float(seen.get("total") or self.order_named(key).fields["total"])

    def order_with(self, wish: Wish, status: str) -> str:
        """Return the id of a customer's order with a product: a trace of it may be enough."""
        for order in self.orders.values():
            fits = order.names(wish["product"]) and order.fields.get("status") == status
            if fits and not order.whole and self.is_of(order, wish["first"]):
                return order.key
        return self.entry(wish, status)[0].key

    def is_of(self, order: Order, first: str) -> bool:
        """Return True if the prompt names the customer of an order."""
        customer = self.customer_id(first)
        if named := order.fields.get("customer_id"):
            return named == customer
        wishes = (self.notes.wishes[at] for at in order.requests if at >= 0)
        if any(wish is not None and wish.said.get("first") == first for wish in wishes):
            return True
        profiles = (event.result for event in self.results("get_customer"))
        listed = [
            key for one in profiles if one["customer_id"] == customer for key in one["orders"]
        ]
        return order.key in (*listed, *self.orders_left(first))

    def entry(self, wish: Wish, status: str) -> tuple[Order, str]:
        """Return a customer's order of some status with a product, and the item of it."""
        customer = self.customer_id(wish["first"])
        named: list[str] = []
        for order in self.orders.values():
            if not order.names(wish["product"]) or not self.is_of(order, wish["first"]):
                continue
            if order.fields.get("status", status) != status:
                continue
            for item in order.items:
                fits = item.get("name") == wish["product"] and item.get("state") == "ordered"
                if fits and "item_id" in item and "status" in order.fields:
                    return order, item["item_id"]
            if not order.whole:
                named.append(order.key)
        # First orders known to contain the product, then orders not read yet for this
        # request, then the one read longest ago.
        read_now = self.orders_read(self.notes.now)
        known = {key for key, order in self.orders.items() if order.whole}
        looked_up = any(e.result["customer_id"] == customer for e in self.results("get_customer"))
        listed = (
            self.orders_of(wish["first"], since=-1)
            if looked_up
            else self.orders_left(wish["first"])
        )
        for key in [*named, *listed]:
            if key not in known and key not in read_now:
                raise Call("get_order", order_id=key)
        for key in read_now if looked_up else ():
            if key not in known and key in listed:
                raise Call("get_order", order_id=key)
        if not looked_up or not self.now("get_customer"):
            # An order may have been placed since the customer was looked up.
            raise Call("get_customer", customer_id=customer)
        raise Lost

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
            if found := self.product_left(event, name):
                return found
        raise Call("list_products")

    def product_left(self, event: Event, name: str) -> str:
        """Return the id of a product from the rest of a result, or nothing."""
        if event.result is not None or event.failed:
            return ""
        if event.tool == "list_products":
            bare = re.search(rf"(?<=\b{re.escape(name)} ){_PRODUCT}", event.told.text)
            return (*event.told.values(name), bare[0] if bare else "")[0]
        if event.tool == "get_product":
            wish = self.notes.wishes[event.request] if event.request >= 0 else None
            for_it = wish is not None and wish.kind in ("order", "exchange")
            if name in event.told.values("name") or (for_it and wish and wish["product"] == name):
                return event.given("product_id", _PRODUCT)
        for record in event.told.records:
            if record.get("name") == (name,) and len(record.get("product_id", ())) == 1:
                return record["product_id"][0]
        return ""

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
        """Return the earliest free slot, of one technician if the request names one."""
        slots = self.slots(visit, start, end or start, fresh=True)
        for slot in slots:
            if slot["free"] and technician in ("", slot["technician"]):
                return str(slot["slot_id"])
        raise Lost


def same(event: Event, call: str) -> bool:
    """Return True if an event is a call."""
    return call == f"{event.tool} {json.dumps(event.arguments)}"


def search(visit: Wish, start: str, end: str) -> Call:
    """Return the call that looks for slots."""
    span = {"from": start, "to": end}
    return Call("search_slots", service=visit["service"], city=visit["city"], **span)


def _method_in(event: Event, brand: str, four: str) -> str:
    """Return a payment method from the rest of a customer record, or nothing."""
    if not four:
        return event.said(r"paypal_\d{7}")
    # The customer describes a card only once, so one of the two facts may be enough.
    found = [
        record["payment_methods"][0]
        for record in event.told.records
        if len(record.get("payment_methods", ())) == 1
        and record.keys() & {"brand", "last_four"}
        and record.get("brand", (brand,)) == (brand,)
        and record.get("last_four", (four,)) == (four,)
    ]
    if len(found) == 1:
        return found[0]
    return event.said(rf"credit_card_\d{{7}}(?= {four}\b)")


def _payment_words(said: str) -> Mapping[str, str]:
    """Return the payment that a customer's words mean."""
    found = read_payment(said)
    if found is None:
        raise Lost
    return found
