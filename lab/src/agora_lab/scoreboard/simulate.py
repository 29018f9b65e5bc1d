"""The cost of a contender's prompts, and the names that they lost."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agora import PriceSheet, sheet_for
from agora.core.prefix_cache import Bill, PrefixCache, Segment
from agora.replay.prompts import held_prefix
from agora_lab.scoreboard.sessions import Session, refusals
from agora_lab.scoreboard.shapes import Message, estimate, text_of
from agora_lab.scoreboard.worker import Sent

OWN = "own"
"""The key of the bill by the session's own model."""
BINDS = "claude-opus-5-5"
OTHERS = ("gpt-5", BINDS)
"""Two further price sheets: reads at a tenth with free writes, and reads at a twentieth. The model
of the second accepts thinking only after the prompt that produced it."""
_NEVER = 1e12
_CUTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A contender on a session."""

    contender: str
    setting: str
    version: str = ""
    session: str
    data: str
    calls: int = 0
    dollars: dict[str, float] = field(default_factory=dict)
    """The input bill, by price sheet."""
    billed: float = 0.0
    """The provider's bill for the recorded prompts, input only; 0 if the log does not have it."""
    highest: float = 0.0
    """The bill at its worst moment as a ratio to sending everything."""
    names: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Actions that need a name, those that find all, and both after the first edit."""
    lines: tuple[int, int, int, int] = (0, 0, 0, 0)
    """The same for quoted lines."""
    newest: tuple[int, int, int, int] = (0, 0, 0, 0)
    """The same for names that the newest results show."""
    refused: int = 0
    """Calls whose request breaks a rule of the provider."""
    rules: tuple[str, ...] = ()
    stale: int = 0
    """Calls with thinking that was made under another prompt."""
    lost_text: int = 0
    """Calls that lack a text of the user or the system."""
    broke: int = 0
    """Calls that were not the call before with something added."""
    edited: bool = False
    cpu_ms: float = 0.0
    """Of all calls together."""
    problem: str = ""
    """The reason why there is no result."""


def sheets_of(session: Session) -> dict[str, PriceSheet]:
    """Return the price sheets of a session, with caches that usage ends and no clock does."""
    own = sheet_for(session.model).for_ttl(session.ttl)
    named = {OWN: own} | {name: sheet_for(name) for name in OTHERS}
    return {key: replace(sheet, ttl_seconds=_NEVER) for key, sheet in named.items()}


def billed_dollars(session: Session) -> float:
    """Return the provider's bill for a session's input, by its usage."""
    usual = sheet_for(session.model)
    hour = usual.for_ttl("1h")
    total = 0.0
    for uncached, read, written, written_1h in session.billed:
        factor = usual.tier(uncached + read + written + written_1h).input
        tokens = uncached + usual.read * read + usual.write * written + hour.write * written_1h
        total += usual.input * factor * tokens / 1e6
    return total


class Account:
    """Bills a session's prompts by one price sheet."""

    def __init__(self, session: Session, sheet: PriceSheet) -> None:
        """Begin with an empty cache."""
        self._session = session
        self._sheet = sheet
        self._cache = PrefixCache(sheet)
        self._scale = 1.0
        self.dollars: list[float] = []
        places = {read for read in session.lost.values() if 0 < read < session.before}
        ends = [*sorted(places, reverse=True)[:_CUTS], session.before]
        ends.sort()
        self._before = [
            Segment(("before", end), end - start, breakpoint=True)
            for start, end in zip([0, *ends[:-1]], ends, strict=True)
            if end > start
        ]

    def send(self, prompt: Sequence[int], table: Sequence[Message], tokens: Sequence[int]) -> Bill:
        """Bill the next call."""
        session = self._session
        segments = self._before[:]
        for place, at in enumerate(prompt):
            first = not segments and not place and table[at]["role"] == "system"
            segments.append(Segment(at, tokens[at], breakpoint=first))
        newest = segments[-1]
        segments[-1] = Segment(newest.key, newest.tokens, breakpoint=True)
        call = len(self.dollars)
        if call in session.lost:
            # The cache does not have the tokens of the calls before.
            self._cache = PrefixCache(self._sheet)
            held = held_prefix(segments, session.lost[call])
            if held:
                self._cache.send(held)
        bill = self._cache.send(segments)
        self.dollars.append(bill.dollars)
        return bill


class Checks:
    """Looks into a session's prompts for the needs of the next actions, and for broken rules."""

    def __init__(self, session: Session) -> None:
        """Begin with no calls."""
        self._session = session
        self._needs = {need.call: need for need in session.needs}
        self._texts: list[str] = []
        self._places: dict[str, set[int]] = {}
        self._looked: dict[str, int] = {}
        self._last: list[int] = []
        self._calls = 0
        self._codes: list[str] = []
        self._made_at = {
            _thinking_of(session.messages[call]): number
            for number, call in enumerate(session.calls)
            if call < len(session.messages) and "thinking" in session.messages[call]
        }
        self._origins: list[int | None] = []
        self._digests: list[int] = []
        self._fixed = [
            at for at, m in enumerate(session.messages) if m["role"] in ("system", "user")
        ]
        self.names = [0, 0, 0, 0]
        self.lines = [0, 0, 0, 0]
        self.newest = [0, 0, 0, 0]
        self.refused = self.stale = self.lost_text = self.broke = 0
        self.rules: set[str] = set()
        self.edited = False

    def look(self, prompt: Sequence[int], table: Sequence[Message]) -> None:
        """Look into the next call's prompt."""
        session, number = self._session, self._calls
        self._calls += 1
        whole = list(range(session.calls[number]))
        extended = prompt[: len(self._last)] == self._last
        self.broke += not extended
        self.edited = self.edited or prompt != whole
        if prompt == whole:
            self._codes = []
        elif not extended or not number:
            self._codes = refusals(session.format, [table[at] for at in prompt])
        self.refused += bool(self._codes)
        self.rules.update(self._codes)
        self._last = list(prompt)
        self.stale += self._has_stale(prompt, table)
        present = set(prompt)
        fixed = (at for at in self._fixed if at < session.calls[number] and at not in present)
        if prompt != whole:
            self.lost_text += any(not self._holds(table, present, at) for at in fixed)
        need = self._needs.get(number)
        if need is None:
            return
        wanted = ((need.names, self.names), (need.lines, self.lines), (need.newest, self.newest))
        for texts, counts in wanted:
            if texts:
                found = all(self._found(text, present, table) for text in texts)
                counts[0] += 1
                counts[1] += found
                counts[2] += self.edited
                counts[3] += self.edited and found

    def _has_stale(self, prompt: Sequence[int], table: Sequence[Message]) -> bool:
        """Return True if thinking follows another prompt than the one that produced it."""
        for message in table[len(self._origins) :]:
            self._origins.append(self._made_at.get(_thinking_of(message)))
        digest, stale = 0, False
        for at in prompt:
            call = self._origins[at]
            stale = stale or (call is not None and self._digests[call] != digest)
            digest = hash((digest, at))
        self._digests.append(digest)
        return stale

    def _holds(self, table: Sequence[Message], present: set[int], at: int) -> bool:
        """Return True if a sent message contains the text of a message."""
        text = str(table[at].get("content") or "").strip()
        return self._found(text, present, table) if text else True

    def _found(self, text: str, present: set[int], table: Sequence[Message]) -> bool:
        while len(self._texts) < len(table):
            self._texts.append(text_of(table[len(self._texts)]))
        places = self._places.setdefault(text, set())
        for at in range(self._looked.get(text, 0), len(self._texts)):
            if text in self._texts[at]:
                places.add(at)
        self._looked[text] = len(self._texts)
        return not places.isdisjoint(present)


def _thinking_of(message: Message) -> str:
    """Return the thinking of a message, with the calls that tell it from the same thought."""
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    return f"{message['thinking']} {calls}" if "thinking" in message else ""


Prompts = Generator[tuple[Sent, Sequence[Message]], Any, None]
"""The prompt of each call, with the table of messages so far; the bill of the call is sent back."""


def simulate(session: Session, prompts: Prompts, sheets: dict[str, PriceSheet]) -> dict[str, Any]:
    """Return the fields of the row that a contender's prompts make on a session.

    The first of the sheets is the one whose bill the contender is told after each call.
    """
    accounts = {key: Account(session, sheet) for key, sheet in sheets.items()}
    checks = Checks(session)
    tokens = list(session.tokens)
    cpu_ms = 0.0
    try:
        sent, table = next(prompts)
        while True:
            while len(tokens) < len(table):
                tokens.append(_tokens(table[len(tokens)], session))
            bills = [one.send(sent.prompt, table, tokens) for one in accounts.values()]
            cpu_ms += sent.cpu_ms
            checks.look(sent.prompt, table)
            sent, table = prompts.send(bills[0])
    except StopIteration:
        pass
    return {
        "calls": len(session.calls),
        "dollars": {key: sum(one.dollars) for key, one in accounts.items()},
        "moments": next(iter(accounts.values())).dollars,
        "names": tuple(checks.names),
        "lines": tuple(checks.lines),
        "newest": tuple(checks.newest),
        "refused": checks.refused,
        "stale": checks.stale,
        "rules": tuple(sorted(checks.rules)),
        "lost_text": checks.lost_text,
        "broke": checks.broke,
        "edited": checks.edited,
        "cpu_ms": cpu_ms,
    }


def _tokens(message: Message, session: Session) -> int:
    """Return the size of a message that a contender made.

    What the log hides of an answer stays as long as its calls do.
    """
    hidden = 0
    if message.get("tool_calls"):
        ids = {call["id"] for call in message["tool_calls"]}
        for at, old in enumerate(session.messages):
            if ids == {call["id"] for call in old.get("tool_calls") or ()}:
                hidden = session.tokens[at] - round(estimate(old) * session.scale)
                if "thinking" in old and "thinking" not in message:
                    hidden = min(hidden, 0)
    return max(1, round(estimate(message) * session.scale) + hidden)
