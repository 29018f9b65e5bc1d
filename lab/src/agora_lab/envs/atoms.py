"""Atoms by environment (the paper's appendix B): one step as a short action and flat key = value.

The same function makes the atoms of a scorer's training examples and of the prompts that the
scorer is asked about in a grid. A text without a rule is left as it is.
"""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

from agora import Step
from agora.paper import Atom, atom

__all__ = ["ATOMS", "Atoms", "atoms_of"]

Atoms = Callable[[Step], Atom]

_ARTICLE = re.compile(r"^(?:an?|the|some)\s+")


def atoms_of(environment: str) -> Atoms:
    """Return the rule of an environment, by default the product's generic rule."""
    return ATOMS.get(environment, atom)


def alfworld(step: Step) -> Atom:
    """Return the atom of a step in ALFWorld.

    >>> said = "On the countertop 1, you see a apple 1, a bread 1, and a knife 1."
    >>> alfworld(Step(number=3, action="go to countertop 1", observation=said, tokens=9))
    Atom(action='go to countertop 1', observation='countertop 1: apple 1, bread 1, knife 1')
    """
    return _by_rules(step, _ALFWORLD)


def scienceworld(step: Step) -> Atom:
    """Return the atom of a step in ScienceWorld.

    >>> action = "use thermometer in inventory on metal block"
    >>> said = "the thermometer measures a temperature of 22 degrees celsius"
    >>> scienceworld(Step(number=7, action=action, observation=said, tokens=9))
    Atom(action='use thermometer on metal block', observation='temperature(metal block) = 22C')
    """
    plain = atom(step)
    action = plain.action.replace(" in inventory", "")
    said = step.observation.strip()
    degrees = _DEGREES.search(said)
    target = action.partition(" on ")[2]
    if degrees and target:
        return Atom(action, f"temperature({target}) = {degrees[1]}C")
    place = _PLACE.match(said)
    if place:
        seen = [_thing(line) for line in said.split("\n")[1:] if line.startswith("\t")]
        return Atom(action, f"{place[1]}: " + "; ".join(thing for thing in seen if thing))
    return Atom(action, _ruled(plain.observation, _SCIENCEWORLD))


def webshop(step: Step) -> Atom:
    r"""Return the atom of a step in WebShop.

    >>> said = ("Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] Purchased [SEP] "
    ...     "asin [SEP] B00O30JLDK [SEP] options [SEP] {\"color\": \"country\"}")
    >>> webshop(Step(number=5, action="click[Buy Now]", observation=said, tokens=9))
    Atom(action='click[Buy Now]', observation='purchased asin=B00O30JLDK; color=country')
    """
    plain = atom(step)
    if "[SEP]" not in step.observation:
        return plain
    parts = [part.strip() for part in step.observation.split("[SEP]")]
    if "Purchased" in parts:
        return Atom(plain.action, _purchase(parts))
    if "Instruction:" in parts:
        # The instruction is the task, which is not part of a step.
        parts = parts[parts.index("Instruction:") + 2 :]
    facts: list[str] = []
    at = 0
    while at < len(parts):
        part = parts[at]
        page = _PAGE.match(part)
        if page:
            facts.append(f"page={page[1]}; results={page[2]}")
        elif _ASIN.fullmatch(part) and at + 2 < len(parts):
            facts.append(f"{part}={parts[at + 2]} {parts[at + 1]}")
            at += 2
        elif part not in _BUTTONS:
            facts.append(part)
        at += 1
    return Atom(plain.action, "; ".join(facts))


def _purchase(parts: list[str]) -> str:
    facts = []
    for name, value in pairwise(parts):
        if name == "asin":
            facts.append(f"asin={value}")
        elif name == "options":
            facts += [f"{key}={chosen}" for key, chosen in _OPTION.findall(value)]
    return f"purchased {'; '.join(facts)}"


def _by_rules(step: Step, rules: Mapping[re.Pattern[str], str | Callable[..., str]]) -> Atom:
    plain = atom(step)
    return Atom(plain.action, _ruled(plain.observation, rules))


def _ruled(said: str, rules: Mapping[re.Pattern[str], str | Callable[..., str]]) -> str:
    for pattern, form in rules.items():
        match = pattern.fullmatch(said)
        if match:
            return form(match) if callable(form) else match.expand(form)
    return said


def _seen(match: re.Match[str]) -> str:
    things = re.split(r",\s*(?:and\s+)?|\s+and\s+", match["things"])
    return f"{match['place']}: " + ", ".join(_ARTICLE.sub("", thing) for thing in things)


def _thing(line: str) -> str:
    """Return a line of a room without articles and brackets, or nothing for the agent itself."""
    text = _ARTICLE.sub("", line.strip().rstrip("."), count=1)
    text = re.sub(r"^(substance called |[Aa] )", "", text)
    text = re.sub(r" \(containing (.*)\)$", r": \1", text)
    text = re.sub(r" \(that is (\w+)\)$", r" = \1", text)
    return "" if text in ("agent", "air") else text


_ALFWORLD: Mapping[re.Pattern[str], str | Callable[..., str]] = MappingProxyType(
    {
        re.compile(r"On the (?P<place>.+?), you see (?P<things>.+)\."): _seen,
        re.compile(
            r"(?:You open the .+?\. )?The (?P<place>.+?) is open\. In it, you see (?P<things>.+)\."
        ): _seen,
        re.compile(r"The (.+) is (closed|open|locked)\."): r"\1 = \2",
        re.compile(r"You close the (.+)\."): r"\1 = closed",
        re.compile(r"You pick up the (.+) from the (.+)\."): r"holding = \1; from = \2",
        re.compile(r"You put the (.+) in/on the (.+)\."): r"\2: \1",
        re.compile(r"You turn on the (.+)\."): r"\1 = on",
        re.compile(r"You (clean|heat|cool) the (.+) using the (.+)\."): r"\2 = \1; with = \3",
        re.compile(r"You are carrying: (.+)\."): r"holding = \1",
    }
)
_SCIENCEWORLD: Mapping[re.Pattern[str], str | Callable[..., str]] = MappingProxyType(
    {
        re.compile(r"You move to the (.+)\."): r"place = \1",
        re.compile(r"(?:\(.*\))?You move the (.+) to the (.+)\."): r"\2: \1",
        re.compile(r"You focus on the (.+)\."): r"focus = \1",
        re.compile(r"(.+) is now connected to (.+)"): r"\1 = \2",
        re.compile(r"The (.+) is now (.+)\."): r"\1 = \2",
        re.compile(r"You decide to wait for (\d+) iterations?\."): r"waited = \1",
    }
)
_DEGREES = re.compile(r"(-?\d+) degrees celsius", re.IGNORECASE)
_PLACE = re.compile(r"This (?:room|outside location) is called the ([\w ]+)\.")
_PAGE = re.compile(r"Page (\d+) \(Total results: (\d+)\)")
_ASIN = re.compile(r"[A-Z0-9]{10}")
_OPTION = re.compile(r'"([^"]+)": "([^"]*)"')
_BUTTONS = frozenset(
    {
        "WebShop",
        "Search",
        "Back to Search",
        "< Prev",
        "Next >",
        "Description",
        "Features",
        "Reviews",
        "Buy Now",
        "Attributes",
    }
)

ATOMS: Mapping[str, Atoms] = MappingProxyType(
    {"alfworld": alfworld, "scienceworld": scienceworld, "webshop": webshop}
)
"""The rule of each environment that has one, by name."""
