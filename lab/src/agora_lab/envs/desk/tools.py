"""The desk's tools: the effect of each on the database, and the JSON that it returns."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agora_lab.envs.desk.catalogue import TODAY

Arguments = Mapping[str, Any]
_LONGEST_SEARCH = 7


class RefusedError(Exception):
    """A call that a tool understands and refuses; the text goes to the agent."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its parameters, purpose and effect."""

    parameters: tuple[str, ...]
    about: str
    do: Callable[[sqlite3.Connection, Arguments], Any]
    writes: bool = False


def call(database: sqlite3.Connection, name: str, arguments: Arguments) -> Any:
    """Return the result of a tool.

    Raises:
        RefusedError: The tool refuses; the database is unchanged.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise RefusedError(f"there is no tool {name}")
    if set(arguments) != set(tool.parameters):
        raise RefusedError(f"{name} takes exactly {', '.join(tool.parameters) or 'nothing'}")
    database.execute("BEGIN")
    try:
        found = tool.do(database, arguments)
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
    return found


def one(database: sqlite3.Connection, query: str, *values: Any, what: str = "") -> sqlite3.Row:
    """Return the only row of a query.

    Raises:
        RefusedError: There is none.
    """
    row: sqlite3.Row | None = database.execute(query, values).fetchone()
    if row is None:
        raise RefusedError(f"{what or 'row'} not found")
    return row


def new_id(database: sqlite3.Connection, *parts: Any) -> str:
    """Return seven digits that depend on the new row alone, not on earlier ones."""
    seed = one(database, "SELECT min(customer_id) FROM customers")[0]
    for attempt in range(1_000):
        text = json.dumps([seed, attempt, *parts])
        digits = str(int(hashlib.sha256(text.encode()).hexdigest(), 16))[:7]
        taken = database.execute(
            "SELECT 1 FROM orders WHERE order_id = ? "
            "UNION SELECT 1 FROM bookings WHERE booking_id = ? "
            "UNION SELECT 1 FROM credits WHERE code = ?",
            (f"#W{digits}", f"BK-{digits}", f"CR-{digits}"),
        ).fetchone()
        if taken is None:
            return digits
    raise RefusedError("the database is full")


def _find_customer(database: sqlite3.Connection, arguments: Arguments) -> Any:
    query = "SELECT customer_id FROM customers WHERE email = ?"
    return {"customer_id": one(database, query, arguments["email"], what="customer")[0]}


def _get_customer(database: sqlite3.Connection, arguments: Arguments) -> Any:
    key = arguments["customer_id"]
    row = one(database, "SELECT * FROM customers WHERE customer_id = ?", key, what="customer")
    methods = database.execute(
        "SELECT * FROM payment_methods WHERE customer_id = ? ORDER BY payment_id", (key,)
    )
    orders = database.execute(
        "SELECT order_id FROM orders WHERE customer_id = ? ORDER BY placed DESC, order_id", (key,)
    )
    bookings = database.execute(
        "SELECT booking_id FROM bookings WHERE customer_id = ? ORDER BY booking_id", (key,)
    )
    return {
        "customer_id": key,
        "name": {"first_name": row["first_name"], "last_name": row["last_name"]},
        "email": row["email"],
        "phone": row["phone"],
        "level": row["level"],
        "address": _address(row),
        "payment_methods": {
            method["payment_id"]: {
                name: method[name] for name in ("kind", "brand", "last_four") if method[name]
            }
            for method in methods
        },
        "orders": [order[0] for order in orders],
        "bookings": [booking[0] for booking in bookings],
    }


def _address(row: sqlite3.Row) -> dict[str, str]:
    return {**{name: row[name] for name in ("street", "city", "state", "zip")}, "country": "USA"}


def order_of(database: sqlite3.Connection, key: str) -> dict[str, Any]:
    """Return an order as the tools show it."""
    row = one(database, "SELECT * FROM orders WHERE order_id = ?", key, what="order")
    items = database.execute(
        "SELECT * FROM order_items JOIN items USING (item_id) JOIN products USING (product_id) "
        "WHERE order_id = ? ORDER BY item_id",
        (key,),
    ).fetchall()
    payments = database.execute(
        "SELECT kind, amount, payment_id FROM payments WHERE reference = ? ORDER BY number", (key,)
    )
    # order_items comes first in the join, so that `price` is the price paid.
    shown = []
    for item in items:
        entry = {
            "name": item["name"],
            "product_id": item["product_id"],
            "item_id": item["item_id"],
            "price": item[2],
            "options": json.loads(item["options"]),
            "state": item["state"],
        }
        if item["exchanged_for"]:
            entry["exchanged_for"] = item["exchanged_for"]
        shown.append(entry)
    return {
        "order_id": key,
        "customer_id": row["customer_id"],
        "placed": row["placed"],
        "status": row["status"],
        "total": round(sum(item["price"] for item in shown), 2),
        "payment_id": row["payment_id"],
        "address": _address(row),
        "items": shown,
        "payments": [dict(payment) for payment in payments],
    }


def _get_order(database: sqlite3.Connection, arguments: Arguments) -> Any:
    return order_of(database, arguments["order_id"])


def _list_products(database: sqlite3.Connection, arguments: Arguments) -> Any:  # noqa: ARG001
    rows = database.execute("SELECT name, product_id FROM products ORDER BY name")
    return dict(map(tuple, rows))


def _get_product(database: sqlite3.Connection, arguments: Arguments) -> Any:
    key = arguments["product_id"]
    row = one(database, "SELECT name FROM products WHERE product_id = ?", key, what="product")
    items = database.execute("SELECT * FROM items WHERE product_id = ? ORDER BY item_id", (key,))
    return {
        "name": row["name"],
        "product_id": key,
        "variants": {
            item["item_id"]: {
                "item_id": item["item_id"],
                "options": json.loads(item["options"]),
                "available": bool(item["available"]),
                "price": item["price"],
            }
            for item in items
        },
    }


def _search_slots(database: sqlite3.Connection, arguments: Arguments) -> Any:
    first, last = str(arguments["from"]), str(arguments["to"])
    rows = database.execute(
        "SELECT * FROM slots WHERE service = ? AND city = ? AND date BETWEEN ? AND ? "
        "ORDER BY date, time, slot_id",
        (arguments["service"], arguments["city"], first, last),
    ).fetchall()
    if len({row["date"] for row in rows}) > _LONGEST_SEARCH:
        raise RefusedError(f"at most {_LONGEST_SEARCH} days at a time")
    return {"slots": [_slot(row) for row in rows]}


def _slot(row: sqlite3.Row) -> dict[str, Any]:
    shown = ("slot_id", "service", "city", "date", "time", "technician", "price")
    return {**{name: row[name] for name in shown}, "free": bool(row["free"])}


def booking_of(database: sqlite3.Connection, key: str) -> dict[str, Any]:
    """Return a booking as the tools show it."""
    row = one(database, "SELECT * FROM bookings WHERE booking_id = ?", key, what="booking")
    slot = one(database, "SELECT * FROM slots WHERE slot_id = ?", row["slot_id"])
    home = one(database, "SELECT * FROM customers WHERE customer_id = ?", row["customer_id"])
    payments = database.execute(
        "SELECT kind, amount, payment_id FROM payments WHERE reference = ? ORDER BY number", (key,)
    )
    return {
        "booking_id": key,
        "customer_id": row["customer_id"],
        "status": row["status"],
        "visit": _slot(slot),
        "at": _address(home),
        "contact": {"phone": home["phone"], "email": home["email"]},
        "payment_id": row["payment_id"],
        "payments": [dict(payment) for payment in payments],
    }


def _get_booking(database: sqlite3.Connection, arguments: Arguments) -> Any:
    return booking_of(database, arguments["booking_id"])


def _pay(
    database: sqlite3.Connection, reference: str, kind: str, amount: float, payment: str
) -> None:
    """Book a payment. Its first use consumes a credit."""
    if str(payment).startswith("CR-"):
        credit = one(database, "SELECT * FROM credits WHERE code = ?", payment, what="credit")
        if credit["used"] or kind != "payment":
            raise RefusedError(f"the credit {payment} cannot be used for this")
        database.execute("UPDATE credits SET used = 1 WHERE code = ?", (payment,))
    else:
        query = "SELECT 1 FROM payment_methods WHERE payment_id = ?"
        one(database, query, payment, what="payment method")
    number = one(database, "SELECT count(*) FROM payments WHERE reference = ?", reference)[0] + 1
    database.execute(
        "INSERT INTO payments VALUES (?, ?, ?, ?, ?)",
        (reference, number, kind, round(amount, 2), payment),
    )


def _place_order(database: sqlite3.Connection, arguments: Arguments) -> Any:
    customer, item, payment = (arguments[name] for name in ("customer_id", "item_id", "payment_id"))
    home = one(database, "SELECT * FROM customers WHERE customer_id = ?", customer, what="customer")
    row = one(database, "SELECT * FROM items WHERE item_id = ?", item, what="item")
    if not row["available"]:
        raise RefusedError(f"item {item} is not available")
    key = f"#W{new_id(database, 'order', customer, item)}"
    address = (home["street"], home["city"], home["state"], home["zip"])
    database.execute(
        "INSERT INTO orders VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, ?)",
        (key, customer, TODAY, payment, *address),
    )
    database.execute(
        "INSERT INTO order_items VALUES (?, ?, ?, 'ordered', NULL)", (key, item, row["price"])
    )
    _pay(database, key, "payment", row["price"], payment)
    return order_of(database, key)


def _of_status(database: sqlite3.Connection, key: str, status: str) -> dict[str, Any]:
    order = order_of(database, key)
    if order["status"] != status:
        raise RefusedError(f"order {key} is {order['status']}, not {status}")
    return order


def _cancel_order(database: sqlite3.Connection, arguments: Arguments) -> Any:
    key = arguments["order_id"]
    order = _of_status(database, key, "pending")
    database.execute("UPDATE orders SET status = 'cancelled' WHERE order_id = ?", (key,))
    # The payment comes back as a credit, whose code is shown this once.
    code = f"CR-{new_id(database, 'credit', key)}"
    database.execute(
        "INSERT INTO credits VALUES (?, ?, ?, 0)", (code, order["customer_id"], order["total"])
    )
    return {**order_of(database, key), "credit": {"code": code, "amount": order["total"]}}


def _item_in(order: Mapping[str, Any], item: str) -> Mapping[str, Any]:
    for entry in order["items"]:
        if entry["item_id"] == item and entry["state"] == "ordered":
            found: Mapping[str, Any] = entry
            return found
    raise RefusedError(f"order {order['order_id']} has no item {item} that is not dealt with yet")


def _return_item(database: sqlite3.Connection, arguments: Arguments) -> Any:
    key, item = arguments["order_id"], arguments["item_id"]
    entry = _item_in(_of_status(database, key, "delivered"), item)
    database.execute(
        "UPDATE order_items SET state = 'return requested' WHERE order_id = ? AND item_id = ?",
        (key, item),
    )
    _pay(database, key, "refund", entry["price"], arguments["payment_id"])
    return order_of(database, key)


def _exchange_item(database: sqlite3.Connection, arguments: Arguments) -> Any:
    key, item, new = (arguments[name] for name in ("order_id", "item_id", "new_item_id"))
    entry = _item_in(_of_status(database, key, "delivered"), item)
    row = one(database, "SELECT * FROM items WHERE item_id = ?", new, what="item")
    if row["product_id"] != entry["product_id"] or not row["available"] or new == item:
        raise RefusedError(f"item {item} cannot be exchanged for {new}")
    database.execute(
        "UPDATE order_items SET state = 'exchange requested', exchanged_for = ? "
        "WHERE order_id = ? AND item_id = ?",
        (new, key, item),
    )
    more = row["price"] - entry["price"]
    kind = "payment" if more > 0 else "refund"
    _pay(database, key, kind, abs(more), arguments["payment_id"])
    return order_of(database, key)


def _change_address(database: sqlite3.Connection, arguments: Arguments) -> Any:
    key = arguments["order_id"]
    _of_status(database, key, "pending")
    database.execute(
        "UPDATE orders SET street = ?, city = ?, state = ?, zip = ? WHERE order_id = ?",
        (*(str(arguments[name]) for name in ("street", "city", "state", "zip")), key),
    )
    return order_of(database, key)


def _change_payment(database: sqlite3.Connection, arguments: Arguments) -> Any:
    key, payment = arguments["order_id"], arguments["payment_id"]
    order = _of_status(database, key, "pending")
    if payment == order["payment_id"]:
        raise RefusedError(f"order {key} is paid with {payment} already")
    _pay(database, key, "refund", order["total"], order["payment_id"])
    _pay(database, key, "payment", order["total"], payment)
    database.execute("UPDATE orders SET payment_id = ? WHERE order_id = ?", (payment, key))
    return order_of(database, key)


def _take_slot(database: sqlite3.Connection, slot: str) -> sqlite3.Row:
    row = one(database, "SELECT * FROM slots WHERE slot_id = ?", slot, what="slot")
    if not row["free"]:
        raise RefusedError(f"slot {slot} is taken")
    database.execute("UPDATE slots SET free = 0 WHERE slot_id = ?", (slot,))
    return row


def _book_slot(database: sqlite3.Connection, arguments: Arguments) -> Any:
    customer, slot = arguments["customer_id"], arguments["slot_id"]
    one(database, "SELECT 1 FROM customers WHERE customer_id = ?", customer, what="customer")
    row = _take_slot(database, slot)
    key = f"BK-{new_id(database, 'booking', customer, slot)}"
    database.execute(
        "INSERT INTO bookings VALUES (?, ?, ?, ?, 'confirmed')",
        (key, customer, slot, arguments["payment_id"]),
    )
    _pay(database, key, "payment", row["price"], arguments["payment_id"])
    return booking_of(database, key)


def _move_booking(database: sqlite3.Connection, arguments: Arguments) -> Any:
    key, slot = arguments["booking_id"], arguments["slot_id"]
    old = one(database, "SELECT * FROM bookings WHERE booking_id = ?", key, what="booking")
    _take_slot(database, slot)
    database.execute("UPDATE slots SET free = 1 WHERE slot_id = ?", (old["slot_id"],))
    database.execute("UPDATE bookings SET slot_id = ? WHERE booking_id = ?", (slot, key))
    return booking_of(database, key)


TOOLS: Mapping[str, Tool] = {
    "find_customer": Tool(("email",), "the id of a customer", _find_customer),
    "get_customer": Tool(
        ("customer_id",), "address, payment methods, orders (newest first), bookings", _get_customer
    ),
    "get_order": Tool(("order_id",), "an order with its items and payments", _get_order),
    "list_products": Tool((), "the ids of all products by name", _list_products),
    "get_product": Tool(
        ("product_id",), "the items of a product: options, price, whether available", _get_product
    ),
    "search_slots": Tool(
        ("service", "city", "from", "to"),
        "visits that can be booked, at most 7 days",
        _search_slots,
    ),
    "get_booking": Tool(("booking_id",), "a booked visit", _get_booking),
    "place_order": Tool(
        ("customer_id", "item_id", "payment_id"),
        "order an item; the payment is a payment method's id or a credit's code",
        _place_order,
        writes=True,
    ),
    "cancel_order": Tool(
        ("order_id",), "cancel a pending order for a credit", _cancel_order, writes=True
    ),
    "return_item": Tool(
        ("order_id", "item_id", "payment_id"),
        "return a delivered item; the refund goes to the payment method",
        _return_item,
        writes=True,
    ),
    "exchange_item": Tool(
        ("order_id", "item_id", "new_item_id", "payment_id"),
        "exchange a delivered item for another of the same product",
        _exchange_item,
        writes=True,
    ),
    "change_order_address": Tool(
        ("order_id", "street", "city", "state", "zip"),
        "send a pending order elsewhere",
        _change_address,
        writes=True,
    ),
    "change_order_payment": Tool(
        ("order_id", "payment_id"),
        "pay a pending order with another payment method",
        _change_payment,
        writes=True,
    ),
    "book_slot": Tool(
        ("customer_id", "slot_id", "payment_id"), "book a visit", _book_slot, writes=True
    ),
    "move_booking": Tool(
        ("booking_id", "slot_id"), "move a visit to another slot", _move_booking, writes=True
    ),
}
