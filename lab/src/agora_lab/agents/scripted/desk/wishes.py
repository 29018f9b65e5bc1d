"""Reads the request of a customer of the desk."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"),
    *("ninth", "tenth", "eleventh", "twelfth"),
)
_NTH = f"(?P<nth>{'|'.join(ORDINALS)})"
_FOR = r"For (?P<first>[A-Z]\w{1,30})(?: [A-Z]\w{1,30} \([^)\n]{1,80}\))?: "
_OPTION = r"with (?P<option>[a-z]{1,20}) (?P<value>[a-z ]{1,30})\."
_PAY = r" Pay with (?P<pay>[^\n]{1,120})\."
_PERIOD = r"(?P<start>[0-9-]{10}) to (?P<end>[0-9-]{10})"
_VISIT = r"(?P<service>[a-z ]{1,40}) in (?P<city>[A-Z]\w{1,30})"
_KINDS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "order": (
            rf"{_FOR}please order one (?P<product>[\w ]{{1,40}}), the cheapest available "
            rf"{_OPTION}{_PAY}"
        ),
        "pick product": (
            rf"{_FOR}of the {_NTH} two products you looked up, please order the cheapest "
            rf"available item\.{_PAY}"
        ),
        "cancel": rf"{_FOR}please cancel the pending order with the (?P<product>[\w ]{{1,40}})\.",
        "cancel placed": rf"Please cancel the {_NTH} order you placed\.",
        "exchange": (
            rf"{_FOR}please exchange the (?P<product>[\w ]{{1,40}}) from the delivered order for "
            rf"the cheapest available other one {_OPTION} Use the payment method of that order .*"
        ),
        "return": (
            rf"{_FOR}please return the (?P<product>[\w ]{{1,40}}) from the delivered order\. "
            r"Refund to (?P<pay>[^\n]{1,120})\."
        ),
        "redirect": (
            rf"{_FOR}please send the pending order with the (?P<product>[\w ]{{1,40}}) to the "
            r"address of (?P<other>[A-Z]\w{1,30})(?: [A-Z]\w{1,30} \([^)\n]{1,80}\))?\."
        ),
        "undo redirect": (
            rf"Please send the {_NTH} order you redirected back to the address it had before\."
        ),
        "book": (
            rf"{_FOR}please book the earliest free slot for {_VISIT} on "
            rf"(?P<start>[0-9-]{{10}})\.{_PAY}"
        ),
        "book technician": (
            rf"{_FOR}please book the earliest free slot for {_VISIT} from {_PERIOD} with the "
            rf"technician of the {_NTH} visit you booked\.{_PAY}"
        ),
        "pick slot": (
            rf"{_FOR}please book the cheapest free one of the {_NTH} slots you looked up\.{_PAY}"
        ),
        "move": (
            rf"Please move the {_NTH} visit you booked to the earliest free slot on "
            r"(?P<start>[0-9-]{10})\."
        ),
        "look at orders": rf"{_FOR}please look up the two newest orders from before today\. .*",
        "pick order": (
            rf"Of the {_NTH} two orders you looked up, please change the payment of the cheaper "
            r"one to (?P<pay>[^\n]{1,120})\."
        ),
        "look at products": (
            r"Please look up what there is of (?P<product>[\w ]{1,40}) and of "
            r"(?P<other>[\w ]{1,40})\. .*"
        ),
        "look at slots": rf"Please look up the slots for {_VISIT} from {_PERIOD}\. .*",
    }.items()
}
PLACING = ("order", "pick product")
CANCELLING = ("cancel", "cancel placed")
BOOKING = ("book", "book technician", "pick slot")


@dataclass(frozen=True, slots=True)
class Wish:
    """One request, with the words that it fills its sentence with."""

    kind: str
    said: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.said[name]

    @property
    def nth(self) -> int:
        """Which earlier thing it points to, from 0."""
        return ORDINALS.index(self.said["nth"])


@lru_cache(maxsize=4_096)
def read_wish(text: str) -> Wish | None:
    """Return the request in a customer's sentence, or None if there is none."""
    for kind, pattern in _KINDS.items():
        if found := pattern.fullmatch(text):
            return Wish(kind, {name: said for name, said in found.groupdict().items() if said})
    return None


_OWN = re.compile(
    r"(?P<first>[A-Z]\w{1,30})'s (?:PayPal|(?P<brand>\w{1,20}) ending in (?P<four>[0-9]{4}))"
)
_OLD = re.compile(rf"the payment method of the {_NTH} order you placed")
_FROM_CREDIT = re.compile(rf"the credit from the {_NTH} order you cancelled")


@lru_cache(maxsize=4_096)
def read_payment(said: str) -> Mapping[str, str] | None:
    """Return the payment in a customer's words, or None."""
    if found := _OWN.fullmatch(said):
        own = {name: value or "" for name, value in found.groupdict().items()}
        return {"kind": "own", **own}
    for kind, pattern in (("old", _OLD), ("credit", _FROM_CREDIT)):
        if found := pattern.fullmatch(said):
            return {"kind": kind, "nth": str(ORDINALS.index(found["nth"]))}
    return None
