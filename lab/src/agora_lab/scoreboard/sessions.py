"""Recorded sessions, made alike: chat messages, the provider's tokens, the clock, and needs."""

import hashlib
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from agora import sheet_for, validate
from agora.logs import Recording, Tally, Usage, read_logs
from agora.logs.unseen import Unseen, inferred, ratio, was_cut
from agora_lab import recorded
from agora_lab.envs.data import cache_folder, data_file
from agora_lab.scoreboard.shapes import (
    Message,
    arguments_of,
    estimate,
    from_anthropic,
    from_commands,
    text_of,
    to_anthropic,
)

CLAUDE_CODE, CODING, TOOLS = "claude-code", "coding", "tools"
DATA = (CLAUDE_CODE, CODING, TOOLS)
LEAST_CALLS = {CLAUDE_CODE: 20, CODING: 10, TOOLS: 5}
"""Shorter sessions are left out: there is nothing to shorten, and little to pay."""
RECENT = 2
"""Turns whose results count as the newest."""
LOST = 0.9
"""A call that reads less than this share of the cached tokens has lost its cache."""
_NAME = re.compile(r"[A-Za-z_][\w./-]{3,}[\w]")
_TELLING = re.compile(r"[_./\d]|[a-z][A-Z]")
_LINE_CHARACTERS = 30
_MOST_NAMES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The names and quotations that the action after a call takes from earlier results."""

    call: int
    names: list[str] = field(default_factory=list)
    """From results that are no longer among the newest; so are the lines."""
    lines: list[str] = field(default_factory=list)
    newest: list[str] = field(default_factory=list)
    """Names from the newest results: a contender may shorten those as they arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A recorded session, in the provider's tokens."""

    id: str
    data: str
    model: str
    ttl: str | None = None
    format: str = "openai"
    """The format in which requests are held against the provider's rules."""
    messages: list[Message]
    calls: list[int]
    """How many of the messages each call sent."""
    tokens: list[int]
    """The size of each message, including the part of its turn that the log hides."""
    before: int = 0
    """Tokens before the first message: the system text and tools that a log lacks."""
    scale: float = 1.0
    """The provider's tokens for each of our estimate."""
    lost: dict[int, int] = field(default_factory=dict)
    """Calls that found less than the call before had left, with the tokens that they did read."""
    at_seconds: list[float] = field(default_factory=list)
    billed: list[list[int]] = field(default_factory=list)
    """Per call: tokens uncached, read, written for the usual lifetime, written for an hour."""
    needs: list[Need]

    def write(self, folder: Path) -> Path:
        """Write the session to a file in a folder, and return its path."""
        path = folder / f"{self.data}-{self.id}.json"
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> "Session":
        """Return the session in a file."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields["needs"] = [Need(**need) for need in fields["needs"]]
        fields["lost"] = {int(call): tokens for call, tokens in fields["lost"].items()}
        return cls(**fields)


def sample(data: str, count: int | None = None) -> tuple[list[Session], Counter[str]]:
    """Return sessions of a data set, and how many were left out by which rule.

    Sorted by lifetime and length, then drawn so that the first n are spread evenly over that
    order, whatever n is: a larger sample holds every smaller one.
    """
    skipped: Counter[str] = Counter()
    eligible = sorted(_read(data, skipped), key=lambda s: (s.ttl or "", len(s.calls), s.id))
    bits = max(1, (len(eligible) - 1).bit_length())
    places = (int(f"{at:0{bits}b}"[::-1], 2) for at in range(1 << bits))
    drawn = [eligible[place] for place in places if place < len(eligible)]
    skipped["eligible"] = len(eligible)
    return drawn[:count], skipped


def _read(data: str, skipped: Counter[str]) -> Iterator[Session]:
    for recording, problem in _recordings(data):
        session = problem or _session(recording, data)
        if isinstance(session, str):
            skipped[session] += 1
        else:
            yield session


def _recordings(data: str) -> Iterator[tuple[Recording, str]]:
    if data == CODING:
        path = data_file(
            "swe-bench-gemini/gemini-3-pro-swe-bench.jsonl.xz", origin="mini-swe-agent"
        )
        yield from ((recording, "") for recording in read_logs([path], Tally()))
    elif data == TOOLS:
        path = data_file("tau-bench/gpt-4o-airline.json", origin="sierra-research/tau-bench")
        yield from ((recording, "") for recording in recorded.read_logs([path], Tally()))
    else:
        tally = Tally()
        for name in ("claude-code", "claude-code-entire"):
            archive = data_file(f"{name}/sessions.tar.xz", origin="the data's README")
            for path in _unpacked(archive, name):
                cleared = "microcompact_boundary" in path.read_text(encoding="utf-8")
                for recording in read_logs([path], tally):
                    why = "the client had cleared old results" if cleared else ""
                    yield recording, why if recording.earlier_calls else ""


def _unpacked(archive: Path, name: str) -> list[Path]:
    folder = cache_folder("sessions") / f"{name}-{archive.stat().st_size}"
    if not folder.exists():
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    return sorted(folder.rglob("*.jsonl"))


def _session(recording: Recording, data: str) -> Session | str:
    """Return the session of a recording, or the rule by which it is left out."""
    if recording.format == "anthropic":
        messages, starts = from_anthropic(recording.messages)
        calls = [starts[at] for at in recording.calls]
    else:
        convert = from_commands if data == CODING else _plain
        messages = convert(recording.messages)
        calls = [at for at, m in enumerate(messages) if m["role"] == "assistant"]
    if len(calls) < LEAST_CALLS[data]:
        return f"fewer than {LEAST_CALLS[data]} calls"
    messages = messages[: calls[-1] + 1]
    usage = recording.usage
    if data != TOOLS and len(usage) != len(calls):
        return "no usage for every call"
    if data == CLAUDE_CODE and len(recording.at_seconds) != len(calls):
        return "no clock"
    if refusals(recording.format, messages[: calls[-1]]):
        return "the recording itself breaks the provider's rules"
    sizes = [estimate(message) for message in messages]
    unseen, tokens = Unseen(), sizes
    if usage:
        counted, billed = [sum(sizes[:at]) for at in calls], [one.prompt for one in usage]
        if was_cut(counted, billed):
            return "the client had shortened its prompts"
        unseen = (
            inferred(counted, billed) if recording.lacks else Unseen(scale=ratio(counted, billed))
        )
        tokens = _calibrated(sizes, calls, unseen)
    model = recording.model or "gpt-4o"
    return Session(
        id=hashlib.blake2b(recording.id.encode(), digest_size=6).hexdigest(),
        data=data,
        model=model,
        ttl=recording.ttl,
        format=recording.format,
        messages=messages,
        calls=calls,
        tokens=tokens,
        before=unseen.tokens,
        scale=unseen.scale,
        lost=_lost(usage, model),
        at_seconds=list(recording.at_seconds) if data == CLAUDE_CODE else [],
        billed=[[u.uncached, u.read, u.written - (h := u.written_1h or 0), h] for u in usage],
        needs=needs(messages, calls),
    )


def _plain(messages: Sequence[Message]) -> list[Message]:
    fields = ("role", "content", "tool_calls", "tool_call_id")
    plain = [{key: one[key] for key in fields if one.get(key) is not None} for one in messages]
    return [{**one, "content": one.get("content") or ""} for one in plain]


def _calibrated(sizes: Sequence[int], calls: Sequence[int], unseen: Unseen) -> list[int]:
    """Return the provider's size of each message.

    What calls added beyond the text belongs to the newest answer before it, as thinking does.
    """
    tokens = [round(size * unseen.scale) for size in sizes]
    debt = 0
    for call, (before, now) in enumerate(pairwise(unseen.grown), start=1):
        debt += now - before
        at = calls[call - 1]
        if at < calls[call]:
            extra = max(debt, -tokens[at])
            tokens[at] += extra
            debt -= extra
    return tokens


def _lost(usage: Sequence[Usage], model: str) -> dict[int, int]:
    """Return the calls that lost their cache, by the provider's usage.

    Automatic caches miss by chance; their price sheet has the expected rate instead.
    """
    if not usage or not sheet_for(model).breakpoints:
        return {}
    lost = {0: usage[0].read}
    for call, (before, now) in enumerate(pairwise(usage), start=1):
        if now.read < LOST * (before.read + before.written):
            lost[call] = now.read
    return lost


def refusals(format: str, chat: Sequence[Message]) -> list[str]:
    """Return the codes of the rules that a prompt breaks."""
    if format != "anthropic":
        return [broken.code for broken in validate(list(chat), format="openai")]
    system, messages = to_anthropic(chat)
    return [b.code for b in validate(messages, format="anthropic", system=system or None)]


def names_in(text: str) -> set[str]:
    """Return the names in a text: paths, identifiers and codes, no plain words.

    >>> sorted(names_in("open src/app.py and call make_user for AB12CD now"))
    ['AB12CD', 'make_user', 'src/app.py']
    """
    return {name for name in _NAME.findall(text) if _TELLING.search(name)}


def needs(messages: Sequence[Message], calls: Sequence[int]) -> list[Need]:
    """Return the names and quotations of each action from earlier results.

    A name counts if an earlier result has it, and neither the user nor the system text does. A line
    counts likewise, if it is long enough to be a quotation. Names from the newest turns count
    apart.
    """
    texts = [text_of(message) for message in messages]
    actions = [at for at, message in enumerate(messages) if message.get("tool_calls")]
    found: list[Need] = []
    for number, call in enumerate(calls):
        body = arguments_of(messages[call]) if call < len(messages) else ""
        earlier = [at for at in actions if at < call]
        if not body or len(earlier) <= RECENT:
            continue
        recent = earlier[-RECENT]
        said = "\n".join(
            texts[at] for at in range(call) if messages[at]["role"] in ("system", "user")
        )
        near = "\n".join(texts[recent:call])
        past = [texts[at] for at in range(recent) if messages[at]["role"] == "tool"]
        new = [texts[at] for at in range(recent, call) if messages[at]["role"] == "tool"]
        names = sorted(name for name in names_in(body) if name not in said)
        lines = {s for x in body.splitlines() if len(s := x.strip()) >= _LINE_CHARACTERS}
        need = Need(
            call=number,
            names=[n for n in names if n not in near and _in(n, past)][:_MOST_NAMES],
            lines=sorted(s for s in lines if s not in said + near and _in(s, past)),
            newest=[n for n in names if _in(n, new)][:_MOST_NAMES],
        )
        if need.names or need.lines or need.newest:
            found.append(need)
    return found


def _in(wanted: str, texts: Sequence[str]) -> bool:
    return any(wanted in text for text in texts)
