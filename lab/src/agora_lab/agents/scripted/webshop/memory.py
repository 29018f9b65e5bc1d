"""The facts in a prompt about the visit: pages seen, products opened, options chosen.

They are read anew from each prompt. A marker tells only the number of missing steps.
"""

import re
from dataclasses import dataclass, field

from agora_lab.agents.base import prompt_blocks
from agora_lab.agents.scripted.webshop.pages import Page, read_page

_NUMBERED = re.compile(r"\[steps? ([0-9]{1,6})(?:-([0-9]{1,6}))? (?:elided|removed)")
_COUNTED = re.compile(r"\[\.\.\. ([0-9]{1,6}) step\(s\) elided")
_STEPS = re.compile(r"at most ([0-9]{1,4}) steps")
_ASIN = re.compile(r"[A-Z0-9]{10}")
_DETAILS = frozenset(["description", "features", "reviews", "attributes"])
_MOVES = frozenset(["back to search", "< prev", "next >", "buy now"])
_DEFAULT_STEPS = 30
_HURRY = 8
"""The assumed number of steps left if nothing counts the missing ones."""


@dataclass(slots=True)
class Candidate:
    """A product in the prompt."""

    asin: str
    order: int
    """When it was first named."""
    title: str = ""
    prices: tuple[float, ...] = ()
    query: str = ""
    """The search that listed it, and on which page of the results."""
    page: int = 0
    opened: bool = False
    choices: tuple[str, ...] | None = None
    """None: its page is not in the prompt."""
    details: tuple[str, ...] = ()
    read: dict[str, str] = field(default_factory=dict)
    lost: int = 0
    """Details that were read and are no longer in the prompt."""


@dataclass(slots=True)
class Memory:
    """The visit so far."""

    instruction: str = ""
    page: Page = field(default_factory=Page)
    """The page that is open now."""
    used: int = 0
    """Steps taken, by the prompt's count."""
    most: int = _DEFAULT_STEPS
    candidates: dict[str, Candidate] = field(default_factory=dict)
    searches: list[str] = field(default_factory=list)
    query: str = ""
    """The search whose results are open."""
    result_page: int = 0
    last_page: dict[str, int] = field(default_factory=dict)
    """By search, the page of results that has no next one."""
    open: Candidate | None = None
    detail: str = ""
    chosen: set[str] = field(default_factory=set)
    """Values clicked on the product that is open, in lower case."""
    gap: bool = False
    """True if a marker follows the page before."""
    torn: bool = False
    """True if steps are missing without a count."""
    failed: set[str] = field(default_factory=set)
    """Actions that did not change the page."""

    def candidate(self, asin: str) -> Candidate:
        """Return the product with that code; a new one at its first mention."""
        return self.candidates.setdefault(asin, Candidate(asin, len(self.candidates)))

    def nameless(self) -> Candidate:
        """Return a new product without a code."""
        one = Candidate("", len(self.candidates))
        self.candidates[f"?{one.order}"] = one
        return one


def read_memory(prompt: str) -> Memory:
    """Return the facts in a prompt. Any text can be read."""
    memory = Memory()
    action, torn = "", False
    for role, text in prompt_blocks(prompt):
        if role == "SYSTEM":
            steps = _STEPS.search(text)
            memory.most = int(steps[1]) if steps else _DEFAULT_STEPS
        elif role == "ASSISTANT":
            action = text.splitlines()[-1].strip()
            memory.used += 1
        else:
            said, marker = _without_marker(text)
            start = said.rfind("\n\n") + 2 if not action and "\n\n" in said else 0
            page = read_page(said[start:].strip())
            if not memory.instruction:
                memory.instruction = page.instruction or said.split("\n", 1)[0]
            torn = torn or _steps_must_be_missing(memory, action, page)
            _follow(memory, action, page)
            if marker and (said or not action):
                _skip(memory, marker)
            action = ""
    if torn:
        memory.used = max(memory.used, memory.most - _HURRY)
        memory.torn = True
    return memory


def _steps_must_be_missing(memory: Memory, action: str, page: Page) -> bool:
    """Return True if an action after the search field needs two steps in between.

    A single missing step is not a gap, since it can be guessed.
    """
    if memory.gap or memory.page.kind != "search" or page.kind == "search":
        return False
    said = _said(action)
    return said.lower() in _DETAILS | {"< prev", "buy now"} or (
        page.kind == "item" and not _ASIN.fullmatch(said)
    )


def _without_marker(text: str) -> tuple[str, list[str]]:
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if _NUMBERED.match(line) or _COUNTED.match(line):
            return "\n".join(lines[:at]).strip(), lines[at:]
    return text.strip(), []


def _skip(memory: Memory, marker: list[str]) -> None:
    memory.gap = True
    memory.open, memory.detail, memory.chosen = None, "", set()
    for line in marker:
        numbered, counted = _NUMBERED.match(line), _COUNTED.match(line)
        if numbered:
            memory.used += int(numbered[2] or numbered[1]) - int(numbered[1]) + 1
        elif counted:
            memory.used += int(counted[1])


def _said(action: str) -> str:
    return " ".join(action.partition("[")[2].removesuffix("]").split())


def _follow(memory: Memory, action: str, page: Page) -> None:
    """Note one step: the action and the page after it."""
    said = _said(action)
    before, same = memory.page, memory.page == page and not memory.gap
    memory.page, memory.gap = page, False
    if page.kind == "results":
        _list(memory, page, said if action.startswith("search") else "", before)
        memory.open, memory.detail, memory.chosen = None, "", set()
    elif page.kind == "item":
        _open(memory, said, page)
        # This click leads to a product only from one of the product's details.
        if memory.open is not None and said == "< Prev" and before.kind != "detail":
            memory.open.lost += 1
    elif page.kind == "detail":
        memory.open = memory.open or memory.nameless()
        if said.lower() in _DETAILS:
            memory.detail = said
            memory.open.read[said] = page.text
    elif page.kind or not action:
        memory.open, memory.detail, memory.chosen = None, "", set()
    else:
        _guess(memory, said)
    if same and action:
        memory.failed.add(action.lower())
    elif action:
        memory.failed = set()


def _guess(memory: Memory, said: str) -> None:
    """Follow an action whose page is not in the prompt."""
    if _ASIN.fullmatch(said):
        memory.open = memory.candidate(said)
        memory.open.opened = True
        memory.detail, memory.chosen = "", set()
    elif said.lower() in _DETAILS:
        memory.detail = said
    elif said.lower() in _MOVES:
        if not memory.detail:
            memory.open, memory.chosen = None, set()
        memory.detail = ""
    elif memory.open is not None:
        memory.chosen.add(said.lower())


def _list(memory: Memory, page: Page, searched: str, before: Page) -> None:
    if searched:
        memory.query = searched
        memory.searches.append(searched)
    elif before.kind == "search":
        memory.query = ""
    memory.result_page = page.number
    if not page.has_next:
        memory.last_page[memory.query] = page.number
    for listing in page.listings:
        one = memory.candidate(listing.asin)
        one.title, one.prices = listing.title, listing.prices
        one.query, one.page = memory.query, page.number


def _open(memory: Memory, said: str, page: Page) -> None:
    is_choice = said.lower() in map(str.lower, page.choices)
    if _ASIN.fullmatch(said.upper()) and not is_choice:
        memory.open, memory.chosen = memory.candidate(said.upper()), set()
    elif memory.open is None or memory.open.title != page.title:
        _recognise(memory, page)
    if is_choice:
        memory.chosen.add(said.lower())
    one = memory.open or memory.nameless()
    one.opened, one.title, one.prices = True, page.title, page.prices
    one.choices, one.details = page.choices, page.details
    memory.open, memory.detail = one, ""


def _recognise(memory: Memory, page: Page) -> None:
    """Find the open product by its title, since the click that opened it is missing."""
    before = memory.open
    if before is not None and not before.title:
        read = before.read
        if before.asin:
            return
    else:
        read = {}
        memory.chosen = set()
    titled = (one for one in memory.candidates.values() if one.title == page.title)
    memory.open = next(titled, None) or memory.nameless()
    memory.open.read.update(read)
