"""Orders and addresses in a prompt: whole, or in parts in several places."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agora_lab.agents.scripted.desk.notes import Event
from agora_lab.agents.scripted.left import Record

ORDER = r"#W\d{7}"
ADDRESS = ("street", "city", "state", "zip")
_CUSTOMER, _PAID = r"[a-z]{1,30}_[a-z]{1,30}_\d{4}\b", r"(?:credit_card|paypal)_\d{7}|CR-\d{7}"
_OF_ORDERS = frozenset(
    "get_order place_order cancel_order return_item exchange_item change_order_address "
    "change_order_payment".split()
)
_OF_BOOKINGS = frozenset("book_slot get_booking move_booking".split())
_FIELDS = ("customer_id", "placed", "status", "total", "payment_id", *ADDRESS)
_OF_ITEMS = frozenset(("name", "item_id", "product_id", "exchanged_for"))
_OF_PAYMENTS = frozenset(("kind", "amount"))


@dataclass(slots=True)
class Order:
    """The facts about an order; the newest ones count."""

    key: str
    fields: dict[str, str] = field(default_factory=dict)
    """Fields of the order itself, the address among them; unknown ones are missing."""
    items: list[Mapping[str, str]] = field(default_factory=list)
    """Name, product, id and state of each item, if they are known."""
    whole: bool = False
    """True if all items are there with all of their fields."""
    requests: set[int] = field(default_factory=set)
    """The requests that it was read or changed for."""

    def names(self, product: str) -> bool:
        """Return True if the order is known to contain a product."""
        return any(item.get("name") == product for item in self.items)


def orders(events: Sequence[Event], *, before: int | None = None) -> dict[str, Order]:
    """Return every order in the events, by its id.

    `before` leaves out that event and later ones.
    """
    found: dict[str, Order] = {}
    dealt: dict[tuple[str, str], str] = {}
    for event in reversed(events[:before]):
        key = order_of(event)
        if not key or event.failed:
            continue
        order = found.setdefault(key, Order(key))
        order.requests.add(event.request)
        _tell(order, event, dealt)
    return found


def order_of(event: Event) -> str:
    """Return the id of an event's order, if it names one."""
    if event.result is not None:
        return str(event.result.get("order_id", ""))
    if event.tool not in _OF_ORDERS:
        return ""
    return event.given("order_id", ORDER) or event.said(ORDER)


def _tell(order: Order, event: Event, dealt: dict[tuple[str, str], str]) -> None:
    """Add an event's facts about an order to those of later events."""
    if event.tool == "cancel_order":
        order.fields.setdefault("status", "cancelled")
    if event.tool == "change_order_payment":
        order.fields.setdefault("payment_id", str(event.arguments.get("payment_id", "")))
    if event.tool in ("return_item", "exchange_item"):
        dealt.setdefault((order.key, str(event.arguments.get("item_id", ""))), event.tool)
    if order.whole:
        return
    if event.result is not None:
        own = {**event.result, **event.result["address"]}
        items = [
            {name: str(value) for name, value in item.items()} for item in event.result["items"]
        ]
        order.whole = True
    else:
        own = _own(event)
        items = [_single(record) for record in event.told.records if _of_item(record)]
    for name in _FIELDS:
        if own.get(name):
            order.fields.setdefault(name, str(own[name]))
    for item in items:
        state = dealt.get((order.key, item.get("item_id", "")))
        order.items.append({**item, "state": state} if state else item)


def _own(event: Event) -> dict[str, str]:
    """Return the fields of an order itself that are left of a result."""
    own: dict[str, str] = {}
    for record in event.told.records:
        if not _of_item(record) and not _OF_PAYMENTS & record.keys():
            own = {**_single(record), **own}
    if event.tool == "place_order":
        own.setdefault("customer_id", event.given("customer_id", _CUSTOMER))
        own.setdefault("payment_id", event.given("payment_id", _PAID))
        own.setdefault("status", "pending")
    if event.tool == "change_order_address":
        own |= {name: str(event.arguments.get(name, "")) for name in ADDRESS}
    return own


def _of_item(record: Record) -> bool:
    return not _OF_ITEMS.isdisjoint(record)


def _single(record: Record) -> dict[str, str]:
    return {name: own[0] for name, own in record.items()}


def addresses(events: Sequence[Event]) -> Iterator[Mapping[str, str]]:
    """Yield every address in the events, newest first, some of them in part."""
    for event in reversed(events):
        if event.result is not None:
            for name in ("address", "at"):
                if name in event.result:
                    yield _bare(event.result[name])
            continue
        if event.tool == "change_order_address" and "street" in event.arguments:
            yield _bare(event.arguments)
        for record in event.told.records:
            if "street" in record:
                yield address_in(record, visit=event.tool in _OF_BOOKINGS)


def address_in(record: Record, *, visit: bool = False) -> dict[str, str]:
    """Return the address in the rest of a record.

    The rest of a `visit` has two cities, the visit's and the customer's. The second counts, which
    follows the street. If only one is left, before the street, neither counts.
    """
    own = _bare(_single(record))
    cities = record.get("city", ())
    if visit and cities:
        order = list(record)
        if len(cities) > 1 or order.index("city") > order.index("street"):
            own["city"] = cities[-1]
        else:
            del own["city"]
    return own


def completed(address: Mapping[str, str], events: Sequence[Event]) -> dict[str, str]:
    """Return an address, with its missing parts from other events."""
    own = dict(address)
    known = list(addresses(events))
    for other in known:
        same = other.get("street") and other.get("street") == own.get("street")
        if same and own.get("zip", other.get("zip")) == other.get("zip", own.get("zip")):
            own = {**other, **own}
    for other in known:
        if "state" not in own and other.get("city") == own.get("city") and "state" in other:
            own["state"] = other["state"]
    return {name: own[name] for name in ADDRESS if name in own}


def complete(address: Mapping[str, str]) -> bool:
    """Return True if no part of an address is missing."""
    return all(address.get(name) for name in ADDRESS)


def _bare(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(values[name]) for name in ADDRESS if values.get(name)}
