"""Serves the customer at the desk from the text of a prompt alone.

It reads the prompt from top to bottom, finds the needs of the newest request, and takes each value
from the prompt: from a whole result, from the rest of one, or from a call. A missing value is
looked up again if a tool shows it. Otherwise the reader guesses if it has a clue, and gives up if
not. It also gives up a request that has taken many calls.
"""

from dataclasses import dataclass
from typing import NoReturn

from agora_lab.agents.scripted.desk.known import WRITES, Call, Known, Lost, same, search
from agora_lab.agents.scripted.desk.notes import read
from agora_lab.agents.scripted.desk.seen import complete
from agora_lab.agents.scripted.desk.wishes import BOOKING, Wish

DONE = "That is done. What else can I do for you?"
LOOKED = "I have looked it up. What else can I do for you?"
GIVEN_UP = "I am sorry, I cannot do that. What else can I do for you?"
MOST_CALLS = 16
"""The most calls for one request; with everything sent no request takes more."""


class DeskReader:
    """Acts at the desk on the text of the prompt."""

    def act(self, prompt: str) -> str:
        """Return the next call, or the next sentence to the customer."""
        notes = read(prompt)
        if not notes.wishes or notes.wishes[-1] is None:
            return GIVEN_UP
        now = [event for event in notes.events if event.request == notes.now]
        if any(event.tool in WRITES and not event.failed for event in now):
            return DONE
        if notes.calls_now >= MOST_CALLS:
            return GIVEN_UP
        try:
            _Service(Known(notes)).serve(notes.wishes[-1])
        except Call as call:
            refused = any(event.failed and same(event, call.text) for event in now)
            return GIVEN_UP if refused else call.text
        except Lost:
            return GIVEN_UP
        return LOOKED


@dataclass(frozen=True, slots=True)
class _Service:
    """Finds the call that a request needs; a value to look up ends the search."""

    known: Known

    def serve(self, wish: Wish) -> None:
        """Raise the next call of the request, or nothing if all was looked up."""
        {
            "order": self._order,
            "pick product": self._pick_product,
            "cancel": self._cancel,
            "cancel placed": self._cancel_placed,
            "exchange": self._exchange,
            "return": self._return,
            "redirect": self._redirect,
            "undo redirect": self._undo,
            "book": self._book,
            "book technician": self._book,
            "pick slot": self._pick_slot,
            "move": self._move,
            "look at orders": self._look_at_orders,
            "pick order": self._pick_order,
            "look at products": self._look_at_products,
            "look at slots": self._look_at_slots,
        }[wish.kind](wish)

    def _order(self, wish: Wish) -> None:
        item = self.known.cheapest([wish["product"]], wish["option"], wish["value"])
        self._place(wish, item)

    def _pick_product(self, wish: Wish) -> None:
        looked = self.known.earlier(("look at products",), wish.nth)[1]
        self._place(wish, self.known.cheapest([looked["product"], looked["other"]]))

    def _place(self, wish: Wish, item: str) -> NoReturn:
        payment = self.known.payment(wish["pay"])
        customer = self.known.customer_id(wish["first"])
        raise Call("place_order", customer_id=customer, item_id=item, payment_id=payment)

    def _cancel(self, wish: Wish) -> None:
        raise Call("cancel_order", order_id=self.known.order_with(wish, "pending"))

    def _cancel_placed(self, wish: Wish) -> None:
        raise Call("cancel_order", order_id=self.known.placed(wish.nth))

    def _exchange(self, wish: Wish) -> None:
        order, item = self.known.entry(wish, "delivered")
        new = self.known.cheapest([wish["product"]], wish["option"], wish["value"], other_than=item)
        if not order.fields.get("payment_id"):
            raise Call("get_order", order_id=order.key)
        raise Call(
            "exchange_item",
            order_id=order.key,
            item_id=item,
            new_item_id=new,
            payment_id=order.fields["payment_id"],
        )

    def _return(self, wish: Wish) -> None:
        order, item = self.known.entry(wish, "delivered")
        payment = self.known.payment(wish["pay"])
        raise Call("return_item", order_id=order.key, item_id=item, payment_id=payment)

    def _redirect(self, wish: Wish) -> None:
        order = self.known.order_with(wish, "pending")
        raise Call("change_order_address", order_id=order, **self.known.home(wish["other"]))

    def _undo(self, wish: Wish) -> None:
        request, redirected = self.known.earlier(("redirect",), wish.nth)
        order = self.known.redirected(request, redirected)
        address = self.known.address_before(request, order)
        if not complete(address):
            # No tool shows the overwritten address: most orders go to the customer's home.
            address = {**self.known.home(redirected["first"]), **address}
        raise Call("change_order_address", order_id=order, **address)

    def _book(self, wish: Wish) -> None:
        technician = self.known.technician(wish.nth) if wish.kind == "book technician" else ""
        payment = self.known.payment(wish["pay"])
        customer = self.known.customer_id(wish["first"])
        slot = self.known.earliest(wish, wish["start"], wish.said.get("end", ""), technician)
        raise Call("book_slot", customer_id=customer, slot_id=slot, payment_id=payment)

    def _pick_slot(self, wish: Wish) -> None:
        payment = self.known.payment(wish["pay"])
        customer = self.known.customer_id(wish["first"])
        looked = self.known.earlier(("look at slots",), wish.nth)[1]
        slots = self.known.slots(looked, looked["start"], looked["end"])
        free = [slot for slot in slots if slot["free"]]
        if not free:
            raise Lost
        cheapest = min(free, key=lambda slot: slot["price"])["slot_id"]
        raise Call("book_slot", customer_id=customer, slot_id=cheapest, payment_id=payment)

    def _move(self, wish: Wish) -> None:
        booking = self.known.booked(wish.nth)
        visit = self.known.visit(self.known.earlier(BOOKING, wish.nth)[1])
        slot = self.known.earliest(visit, wish["start"])
        raise Call("move_booking", booking_id=booking, slot_id=slot)

    def _look_at_orders(self, wish: Wish) -> None:
        read_now = self.known.orders_read(self.known.notes.now)
        if len(read_now) < 2:
            for order in self.known.pair(self.known.notes.now, wish):
                if order not in read_now:
                    raise Call("get_order", order_id=order)

    def _pick_order(self, wish: Wish) -> None:
        request, looked = self.known.earlier(("look at orders",), wish.nth)
        payment = self.known.payment(wish["pay"])
        pair = self.known.pair(request, looked)
        cheaper = min(pair, key=self.known.total)
        raise Call("change_order_payment", order_id=cheaper, payment_id=payment)

    def _look_at_products(self, wish: Wish) -> None:
        events = self.known.now("get_product")
        read_now = [event.given("product_id", r"\d{10}") for event in events]
        if len(set(read_now)) < 2:
            for name in (wish["product"], wish["other"]):
                product = self.known.product_id(name)
                if product not in read_now:
                    raise Call("get_product", product_id=product)

    def _look_at_slots(self, wish: Wish) -> None:
        if not self.known.now("search_slots"):
            raise search(wish, wish["start"], wish["end"])


READER = DeskReader()
