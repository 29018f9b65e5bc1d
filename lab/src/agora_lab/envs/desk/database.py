"""The desk's database: its tables, their initial rows, and the difference of two states."""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agora_lab.envs.desk.catalogue import (
    BRANDS,
    CITIES,
    DAYS,
    FIRST_NAMES,
    LAST_NAMES,
    OPTIONS,
    PRODUCTS,
    SERVICES,
    STREETS,
    TIMES,
    WAYS,
)

PEOPLE = 4
"""Customers that a conversation is about; the database has more."""
_CUSTOMERS = 8
_SCHEMA = """
CREATE TABLE customers (customer_id TEXT PRIMARY KEY, first_name TEXT, last_name TEXT, email TEXT,
  phone TEXT, level TEXT, street TEXT, city TEXT, state TEXT, zip TEXT);
CREATE TABLE payment_methods (payment_id TEXT PRIMARY KEY, customer_id TEXT, kind TEXT, brand TEXT,
  last_four TEXT);
CREATE TABLE products (product_id TEXT PRIMARY KEY, name TEXT);
CREATE TABLE items (item_id TEXT PRIMARY KEY, product_id TEXT, options TEXT, price REAL,
  available INTEGER);
CREATE TABLE orders (order_id TEXT PRIMARY KEY, customer_id TEXT, placed TEXT, status TEXT,
  payment_id TEXT, street TEXT, city TEXT, state TEXT, zip TEXT);
CREATE TABLE order_items (order_id TEXT, item_id TEXT, price REAL, state TEXT,
  exchanged_for TEXT, PRIMARY KEY (order_id, item_id));
CREATE TABLE payments (reference TEXT, number INTEGER, kind TEXT, amount REAL, payment_id TEXT,
  PRIMARY KEY (reference, number));
CREATE TABLE slots (slot_id TEXT PRIMARY KEY, service TEXT, city TEXT, date TEXT, time TEXT,
  technician TEXT, price REAL, free INTEGER);
CREATE TABLE bookings (booking_id TEXT PRIMARY KEY, customer_id TEXT, slot_id TEXT, payment_id TEXT,
  status TEXT);
CREATE TABLE credits (code TEXT PRIMARY KEY, customer_id TEXT, amount REAL, used INTEGER);
"""
_CHANGING: Mapping[str, int] = {
    "orders": 1,
    "order_items": 2,
    "payments": 2,
    "slots": 1,
    "bookings": 1,
    "credits": 1,
}
"""The tables that tools change, with the columns of their keys: those that come first."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "orders": (
        *("order_id", "customer_id", "placed", "status", "payment_id"),
        *("street", "city", "state", "zip"),
    ),
    "order_items": ("order_id", "item_id", "price", "state", "exchanged_for"),
    "payments": ("reference", "number", "kind", "amount", "payment_id"),
    "slots": ("slot_id", "service", "city", "date", "time", "technician", "price", "free"),
    "bookings": ("booking_id", "customer_id", "slot_id", "payment_id", "status"),
    "credits": ("code", "customer_id", "amount", "used"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """One field of one row."""

    table: str
    key: tuple[Any, ...]
    field: str


_New = Callable[[int], str]
State = Mapping[tuple[str, tuple[Any, ...]], tuple[Any, ...]]
"""Rows by table and key."""


def filled(chance: random.Random) -> sqlite3.Connection:
    """Return a database in memory, filled by chance; the same chance gives the same rows."""
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    database.row_factory = sqlite3.Row
    database.executescript(_SCHEMA)
    database.execute("BEGIN")
    new = _numbers(chance)
    _fill_products(database, chance, new)
    _fill_slots(database, chance, new)
    _fill_customers(database, chance, new)
    database.execute("COMMIT")
    return database


def copied(database: sqlite3.Connection) -> sqlite3.Connection:
    """Return a database of its own with the same rows."""
    other = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    other.row_factory = sqlite3.Row
    database.backup(other)
    return other


def state_of(database: sqlite3.Connection) -> State:
    """Return every row that a tool could change."""
    found = {}
    for table, keys in _CHANGING.items():
        names = ", ".join(_FIELDS[table])
        for row in database.execute(f"SELECT {names} FROM {table}"):  # noqa: S608 - our own names
            values = tuple(row)
            found[table, values[:keys]] = values
    return found


def changes(before: State, after: State) -> Iterator[Place]:
    """Yield the fields that differ: all fields of an added or deleted row."""
    rows = [row for row, values in after.items() if before.get(row) != values]
    rows += before.keys() - after.keys()
    for table, key in sorted(rows, key=str):
        old, new = before.get((table, key)), after.get((table, key))
        for at, name in enumerate(_FIELDS[table]):
            if old is None or new is None or old[at] != new[at]:
                yield Place(table, key, name)


def value_at(state: State, place: Place) -> Any:
    """Return the value of a field, or None if there is no such row."""
    row = state.get((place.table, place.key))
    return None if row is None else row[_FIELDS[place.table].index(place.field)]


def _numbers(chance: random.Random) -> Callable[[int], str]:
    """Return a function that draws numbers of some digits, none of them twice."""
    drawn: set[str] = set()

    def new(digits: int) -> str:
        while True:
            number = str(chance.randrange(10 ** (digits - 1), 10**digits))
            if number not in drawn:
                drawn.add(number)
                return number

    return new


def _digits(chance: random.Random, count: int) -> str:
    return str(chance.randrange(10 ** (count - 1), 10**count))


def _fill_products(database: sqlite3.Connection, chance: random.Random, new: _New) -> None:
    for name in PRODUCTS:
        product = new(10)
        database.execute("INSERT INTO products VALUES (?, ?)", (product, name))
        names = chance.sample(sorted(OPTIONS), 3)
        base = chance.randrange(2_000, 60_000)
        prices = chance.sample(range(base, base + base // 2 + 400), 22)
        for price in prices[: chance.randrange(8, 22)]:
            options = {option: chance.choice(OPTIONS[option]) for option in names}
            database.execute(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?)",
                (
                    new(10),
                    product,
                    json.dumps(options),
                    price / 100,
                    int(chance.random() < 0.7),
                ),
            )


def _fill_slots(database: sqlite3.Connection, chance: random.Random, new: _New) -> None:
    for service in SERVICES:
        for city in CITIES:
            technicians = [f"tech_{new(4)}" for _ in range(4)]
            prices = iter(chance.sample(range(6_000, 24_000), len(DAYS) * len(TIMES)))
            for date in DAYS:
                for time in sorted(chance.sample(TIMES, chance.randrange(2, 6))):
                    slot = f"SL-{new(7)}"
                    row = (slot, service, city, date, time, chance.choice(technicians))
                    database.execute(
                        "INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        (*row, next(prices) / 100, int(chance.random() < 0.75)),
                    )


def _fill_customers(database: sqlite3.Connection, chance: random.Random, new: _New) -> None:
    firsts = chance.sample(FIRST_NAMES, _CUSTOMERS)
    for first in firsts:
        last = chance.choice(LAST_NAMES)
        customer = f"{first}_{last}_{new(4)}".lower()
        database.execute(
            "INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(customer, first, last),
                f"{first}.{last}{_digits(chance, 2)}@example.com".lower(),
                f"+1-{_digits(chance, 3)}-555-{_digits(chance, 4)}",
                chance.choice(("regular", "silver", "gold")),
                *_address(chance),
            ),
        )
        payments: list[tuple[str, str, str | None]] = [
            (f"credit_card_{new(7)}", "credit_card", brand)
            for brand in chance.sample(BRANDS, chance.randrange(1, 4))
        ]
        payments.append((f"paypal_{new(7)}", "paypal", None))
        for payment, kind, brand in payments:
            database.execute(
                "INSERT INTO payment_methods VALUES (?, ?, ?, ?, ?)",
                (payment, customer, kind, brand, _digits(chance, 4) if brand else None),
            )
        _fill_orders(database, chance, new, customer, [payment for payment, _, _ in payments])


def _fill_orders(
    database: sqlite3.Connection,
    chance: random.Random,
    new: _New,
    customer: str,
    payments: list[str],
) -> None:
    home = tuple(
        database.execute(
            "SELECT street, city, state, zip FROM customers WHERE customer_id = ?", (customer,)
        ).fetchone()
    )
    products = [row[0] for row in database.execute("SELECT product_id FROM products")]
    chance.shuffle(products)
    dates = sorted(
        chance.sample([f"2026-{m:02d}-{d:02d}" for m in (2, 3, 4) for d in range(1, 29)], 7)
    )
    for number, date in enumerate(dates[: chance.randrange(4, 8)]):
        order = f"#W{new(7)}"
        status = "delivered" if number < 2 else chance.choice(("pending", "pending", "delivered"))
        address = home if chance.random() < 0.5 else _address(chance)
        payment = chance.choice(payments)
        database.execute(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (order, customer, date, status, payment, *address),
        )
        total = 0.0
        for _ in range(chance.randrange(1, 6)):
            rows = database.execute(
                "SELECT item_id, price FROM items WHERE product_id = ? ORDER BY item_id",
                (products.pop(),),
            ).fetchall()
            item, price = chance.choice(rows)
            total += price
            database.execute(
                "INSERT INTO order_items VALUES (?, ?, ?, 'ordered', NULL)", (order, item, price)
            )
        database.execute(
            "INSERT INTO payments VALUES (?, 1, 'payment', ?, ?)", (order, round(total, 2), payment)
        )


def _address(chance: random.Random) -> tuple[str, str, str, str]:
    city = chance.choice(sorted(CITIES))
    street = f"{chance.randrange(10, 999)} {chance.choice(STREETS)} {chance.choice(WAYS)}"
    return street, city, CITIES[city], _digits(chance, 5)
