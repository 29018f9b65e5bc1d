"""A plan: which prompts a backbone is asked, in which order, each under a key of its content.

Prompts are ordered for the server's prefix cache. First come the whole prompts
of all anchors of a trajectory, each the one before it and one step more. Then,
for each candidate from the last to the first, the prompts without it, again one
anchor after the other: only the first of them is read from the candidate on,
each further one is its last step. Anchor by anchor, every prompt would be read
from its candidate on. The whole prompts are asked once, for all candidates.
"""

import hashlib
import json
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

import agora
from agora.core.prices import PriceSheet
from agora.core.tokens import MESSAGE_TOKENS, EstimatedTokens
from agora.errors import AgoraError, MissingExtraError
from agora.lab.labelling.cases import GAP, Case, Message, joined

SCHEMA = 1
"""Part of every key: what is asked in another way is another question."""
PLAN, CASES, ASKS = "plan.json", "cases.parquet", "asks.parquet"

Kind = Literal["counterfactual", "likelihood"]
AskKind = Literal["sample", "score"]
_ASKED: Mapping[Kind, AskKind] = {"counterfactual": "sample", "likelihood": "score"}


class PlanError(AgoraError):
    """A plan that cannot be made, or is not what it says it is."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the plan {self.folder!r} {self.problem}" if self.folder else self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What labels are wanted, of which backbone, and how much may be asked for them."""

    backbone: str
    revision: str = ""
    """Which weights: the SHA-256 of the file, or what the vendor calls the version."""
    kinds: tuple[Kind, ...] = ("counterfactual",)
    samples: int = 8
    """Answers to each prompt. The paper's K counts both sides: its 8 are 4 here."""
    temperature: float = 1.0
    max_tokens: int = 48
    stop: tuple[str, ...] = ()
    seed: int = 0
    k_recent: int = 2
    anchors: int | None = None
    """At most so many of each trajectory, drawn by the seed."""
    candidates: int | None = None
    """At most so many of each anchor, drawn by the seed."""
    longest: int | None = None
    """Anchors with a prompt of more tokens, by our estimate, are passed over."""

    def __post_init__(self) -> None:
        for name in ("samples", "max_tokens", "anchors", "candidates", "longest"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError("", f"a plan cannot have {name} {value!r}; 1 or more")
        if not self.kinds or set(self.kinds) - set(_ASKED):
            raise PlanError("", f"a plan is for {' or '.join(_ASKED)}, not {self.kinds!r}")

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the settings that a plan's file holds."""
        return cls(**{**found, "kinds": tuple(found["kinds"]), "stop": tuple(found["stop"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One prompt to ask: which, not what it says."""

    key: str
    """Hash of everything that the answer can depend on."""
    kind: AskKind
    case: int
    """The row of the case in the file of cases."""
    anchor: int
    """The number of the step whose action is asked for."""
    candidate: int
    """The number of the step that is left out; 0 for none."""
    order: int
    """Its place in the plan."""
    prompt_tokens: int
    """By our estimate."""
    new_tokens: int
    """Of those, what the prompt asked before it did not begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent to the backbone for an ask."""

    key: str
    kind: AskKind
    messages: tuple[Message, ...]
    samples: int
    seed: int
    """Of this request's own, from its key: samples of two prompts are independent."""
    temperature: float
    max_tokens: int
    stop: tuple[str, ...]
    continuation: str | None
    """What is to be scored, for a score."""


def asks(number: int, case: Case, settings: Settings, *, start: int = 0) -> Iterator[Ask]:
    """Return what is asked about a case, in order: each whole prompt before those without a step.

    Two asks have the same key when they ask the same; `write_plan` leaves the
    second one out.
    """
    anchors = _anchors(case, settings)
    if not anchors:
        return
    tail = _tails(settings)
    builder = _Prompt()
    at = 0
    before = 0
    order = start
    starts: dict[int, _Prompt] = {}
    wanted = {one for candidates in anchors.values() for one in candidates}
    places = {case.steps[one - 1][0]: one for one in wanted}
    passes: list[tuple[int, list[int]]] = [(0, sorted(anchors))]
    passes += [
        (one, sorted(anchor for anchor, found in anchors.items() if one in found))
        for one in sorted(wanted, reverse=True)
    ]
    for candidate, chosen in passes:
        if candidate:
            builder = starts[candidate]
            at = case.steps[candidate - 1][1]
            before = builder.tokens
        for anchor in chosen:
            end = case.steps[anchor - 1][0]
            while at < end:
                if not candidate and at in places:
                    starts[places[at]] = builder.copy()
                builder.add(case.messages[at])
                at += 1
            tokens = builder.tokens
            action = case.actions[anchor - 1]
            new = tokens - before
            for kind in settings.kinds:
                yield Ask(
                    key=builder.key(tail(_ASKED[kind], action)),
                    kind=_ASKED[kind],
                    case=number,
                    anchor=anchor,
                    candidate=candidate,
                    order=order,
                    prompt_tokens=tokens,
                    new_tokens=new,
                )
                order += 1
                new = 0
            before = tokens


def pairs(case: Case, settings: Settings) -> Iterator[tuple[int, int]]:
    """Return the anchors and candidates of a case that labels are planned for."""
    for anchor, candidates in _anchors(case, settings).items():
        for candidate in candidates:
            yield anchor, candidate


def request(ask: Ask, case: Case, settings: Settings) -> Request:
    """Return what is sent for an ask, built from the case.

    Raises:
        PlanError: the case is not the one that the ask was planned for.
    """
    messages = case.prompt(ask.anchor, ask.candidate)
    action = case.actions[ask.anchor - 1]
    key = request_key(messages, ask.kind, settings, action)
    if key != ask.key:
        raise PlanError(
            "",
            f"ask {ask.order} (case {ask.case}, anchor {ask.anchor}, candidate {ask.candidate}) "
            "has a key that is not its prompt's: cases, settings and asks are not of one plan; "
            "make the plan again",
        )
    return Request(
        key=key,
        kind=ask.kind,
        messages=tuple(messages),
        samples=settings.samples,
        seed=int(key[:8], 16) & 0x7FFFFFFF,
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        stop=settings.stop,
        continuation=action if ask.kind == "score" else None,
    )


def request_key(messages: Iterable[Message], kind: AskKind, settings: Settings, action: str) -> str:
    """Return the key of a prompt: of what its answer can depend on, and of nothing else.

    A score does not depend on how answers are sampled, a sample not on the
    action that was taken.
    """
    builder = _Prompt()
    for message in messages:
        builder.add(message)
    return builder.key(_tails(settings)(kind, action))


class _Tail:
    """What of a key comes after the prompt."""

    def __init__(self, settings: Settings) -> None:
        self._about = {
            "schema": SCHEMA,
            "backbone": settings.backbone,
            "revision": settings.revision,
        }
        sampling = {
            "samples": settings.samples,
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "stop": settings.stop,
            "seed": settings.seed,
        }
        self._sample = _bytes({**self._about, "kind": "sample", **sampling})

    def __call__(self, kind: AskKind, action: str) -> bytes:
        if kind == "sample":
            return self._sample
        return _bytes({**self._about, "kind": "score", "continuation": action})


@lru_cache(maxsize=16)
def _tails(settings: Settings) -> _Tail:
    return _Tail(settings)


_COUNTER = EstimatedTokens()


class _Prompt:
    """A prompt that grows message by message, with the hash and the tokens of what it holds.

    Hashing goes on from where the shorter prompt was, so a plan takes time by
    what is new in its prompts and not by all that they say.
    """

    __slots__ = ("_closed", "_hash", "_role", "_text")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._closed = 0
        self._role = ""
        self._text = ""

    def copy(self) -> "_Prompt":
        other = _Prompt()
        other._hash = self._hash.copy()
        other._closed = self._closed
        other._role, other._text = self._role, self._text
        return other

    def add(self, message: Message) -> None:
        if message["role"] == self._role:
            self._text = f"{self._text}{GAP}{message['content']}"
            return
        if self._role:
            self._hash.update(self._last())
            self._closed += MESSAGE_TOKENS + _COUNTER.count(self._text)
        self._role, self._text = message["role"], message["content"]

    @property
    def tokens(self) -> int:
        if not self._role:
            return 0
        return self._closed + MESSAGE_TOKENS + _COUNTER.count(self._text)

    def key(self, tail: bytes) -> str:
        whole = self._hash.copy()
        whole.update(self._last())
        whole.update(tail)
        return whole.hexdigest()

    def _last(self) -> bytes:
        return _bytes({"content": self._text, "role": self._role}) + b"\n"


def _bytes(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")


def _anchors(case: Case, settings: Settings) -> dict[int, list[int]]:
    """Return the anchors of a case with their candidates, as many as the settings allow."""
    found: dict[int, list[int]] = {}
    for anchor in range(settings.k_recent + 2, len(case.steps) + 1):
        before = case.steps[anchor - 1][0] - 1
        # An action without any text cannot be scored, and says nothing when it is sampled. After
        # words of the agent's own, servers take those for the beginning of the answer.
        if case.actions[anchor - 1].strip() and case.messages[before]["role"] == "user":
            candidates = case.candidates(anchor, k_recent=settings.k_recent)
            if candidates:
                found[anchor] = candidates
    if settings.longest is not None and found:
        short = set(_short(case, settings.longest))
        found = {anchor: some for anchor, some in found.items() if anchor in short}
    chance = random.Random(f"{settings.seed}:{case.data}")
    if settings.anchors is not None and len(found) > settings.anchors:
        drawn = sorted(chance.sample(sorted(found), settings.anchors))
        found = {anchor: found[anchor] for anchor in drawn}
    if settings.candidates is not None:
        most = settings.candidates
        found = {
            anchor: sorted(chance.sample(some, most)) if len(some) > most else some
            for anchor, some in found.items()
        }
    return found


def _short(case: Case, longest: int) -> Iterator[int]:
    builder = _Prompt()
    at = 0
    for anchor, (start, _) in enumerate(case.steps, start=1):
        for message in case.messages[at:start]:
            builder.add(message)
        at = start
        if builder.tokens > longest:
            return
        yield anchor


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a plan holds and what it will take, before anything is asked."""

    trajectories: int
    """Trajectories that something is asked about."""
    passed_over: int
    """Trajectories without a past outside the floor, too long, or seen before."""
    anchors: int
    pairs: int
    """Pairs of an anchor and a candidate: labels of each kind."""
    calls: int
    shared: int
    """Asks that were left out because another asks the same."""
    prompt_tokens: int
    """Of all prompts, by our estimate."""
    new_tokens: int
    """Of those, what a server reads that remembers the prompt before."""
    output_tokens: int
    """What is generated if answers are as long as the recorded actions; scores included."""

    def dollars(self, sheet: PriceSheet) -> tuple[float, float]:
        """Return what it costs without the provider's cache, and with it used as it can be."""
        without = sheet.dollars(uncached=self.prompt_tokens, output=self.output_tokens)
        used = sheet.dollars(
            written=self.new_tokens if sheet.caches else 0,
            uncached=0 if sheet.caches else self.prompt_tokens,
            read=self.prompt_tokens - self.new_tokens if sheet.caches else 0,
            output=self.output_tokens,
        )
        return without, used

    def hours(self, *, prompt_rate: float, output_rate: float) -> float:
        """Return how long one server takes that reads and writes so many tokens a second."""
        return (self.new_tokens / prompt_rate + self.output_tokens / output_rate) / 3600


def write_plan(folder: Path, cases: Iterable[Case], settings: Settings) -> Summary:
    """Write a plan: its cases, what is asked about them in order, and last what it is.

    Cases are taken one by one. What is held of them is some hundred bytes each,
    and the keys of those whose task came more than once: only they can ask the
    same. A case that came before is left out.

    Raises:
        PlanError: there is a plan in the folder already, or nothing to ask.
    """
    if (folder / PLAN).exists():
        raise PlanError(str(folder), "is there already; use another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    openings, came_before = _write_cases(folder / CASES, cases)
    counts = _write_asks(folder, settings, openings)
    if not counts.calls:
        raise PlanError(
            str(folder),
            f"would ask nothing: of {len(openings):,} trajectories none has an action with a past "
            f"outside the newest {settings.k_recent} steps; a longer trajectory is needed",
        )
    summary = replace(counts, passed_over=counts.passed_over + came_before)
    about = {
        "schema": SCHEMA,
        "agora": agora.__version__,
        "settings": asdict(settings),
        "summary": asdict(summary),
        "files": {name: _hash(folder / name) for name in (CASES, ASKS)},
    }
    draft = folder / f"{PLAN}.draft"
    draft.write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    # A plan is there when this file is: whoever finds it finds the others whole.
    draft.replace(folder / PLAN)
    return summary


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as it lies in its folder."""

    folder: Path
    settings: Settings
    summary: Summary
    digest: str
    """Hash of the whole plan: two plans with the same ask the same."""

    @property
    def asks_file(self) -> Path:
        """Where the asks lie, one row each, in asking order."""
        return self.folder / ASKS

    def cases(self) -> "Cases":
        """Return its cases, read as they are wanted."""
        return Cases(self.folder / CASES)

    def asks(self) -> Iterator[Ask]:
        """Return what is asked, in order."""
        names = [field.name for field in fields(Ask)]
        pa, pq = _arrow()
        try:
            with pq.ParquetFile(self.asks_file) as file:
                for batch in file.iter_batches(columns=names):
                    for row in batch.to_pylist():
                        yield Ask(**row)
        except (OSError, pa.ArrowException) as error:
            raise PlanError(str(self.folder), f"has no {ASKS} that can be read: {error}") from error


def read_plan(folder: Path, *, check: bool = False) -> Plan:
    """Return the plan in a folder; with `check` its files are hashed and compared.

    Raises:
        PlanError: there is none, or its files are not those it was made with.
    """
    try:
        text = (folder / PLAN).read_bytes()
        found = json.loads(text)
        settings = Settings.from_json(found["settings"])
        summary = Summary(**found["summary"])
        files = dict(found["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanError(str(folder), f"has no {PLAN} that can be read ({error})") from error
    if found["schema"] != SCHEMA:
        raise PlanError(str(folder), f"is of schema {found['schema']}, not {SCHEMA}; make it again")
    if check:
        changed = [name for name, digest in files.items() if _hash(folder / name) != digest]
        if changed:
            raise PlanError(
                str(folder), f"has another {' and '.join(changed)} than it was made with"
            )
    return Plan(folder, settings, summary, hashlib.sha256(text).hexdigest())


class Cases:
    """The cases of a plan by their numbers, a few groups of them in memory at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            PlanError: it cannot be read.
        """
        pa, pq = _arrow()
        try:
            self._file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise PlanError(str(path.parent), f"has no {CASES} to read: {error}") from error
        self._count = self._file.metadata.num_rows
        self._groups: dict[int, list[Case]] = {}

    def __len__(self) -> int:
        return int(self._count)

    def __getitem__(self, number: int) -> Case:
        if not 0 <= number < self._count:
            raise IndexError(f"there is no case {number}; there are {self._count}")
        group, place = divmod(number, _GROUP)
        if group not in self._groups:
            while len(self._groups) >= _HELD:
                self._groups.pop(next(iter(self._groups)))
            column = self._file.read_row_group(group, columns=["case"])["case"]
            self._groups[group] = [Case.from_json(text) for text in column.to_pylist()]
        return self._groups[group][place]

    def __iter__(self) -> Iterator[Case]:
        for number in range(self._count):
            yield self[number]


_GROUP = 32
"""Cases in a row group: what is read for one."""
_HELD = 4
"""Row groups held at a time."""
_BLOCK = 512
"""Asks in a row group, at least, so that a block is whole trajectories and not too small."""


def _write_cases(path: Path, cases: Iterable[Case]) -> tuple["array[int]", int]:
    """Write the cases; return a fingerprint of what each begins with, and how many came twice."""
    pa, pq = _arrow()
    text = pa.string()
    names = ("trajectory", "data", "source", "task", "world")
    schema = pa.schema([("number", pa.int64()), *((name, text) for name in names), ("case", text)])
    openings = array("Q")
    seen: set[bytes] = set()
    came_before = 0
    rows: list[dict[str, Any]] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for case in cases:
            data = bytes.fromhex(case.data)
            if data in seen:
                came_before += 1
                continue
            seen.add(data)
            row = {name: getattr(case, name) for name in names}
            rows.append({"number": len(openings), **row, "case": case.to_json()})
            openings.append(_opening(case))
            if len(rows) == _GROUP:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                rows = []
        if rows:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return openings, came_before


def _opening(case: Case) -> int:
    """Return a fingerprint of what all prompts of the case begin with."""
    before = case.messages[: case.steps[0][0]] if case.steps else case.messages
    digest = hashlib.sha256(_bytes([[one["role"], one["content"]] for one in joined(before)]))
    return int.from_bytes(digest.digest()[:8], "big")


def _write_asks(folder: Path, settings: Settings, openings: "array[int]") -> Summary:
    pa, pq = _arrow()
    number, text = pa.int32(), pa.string()
    schema = pa.schema(
        [
            ("key", text),
            ("kind", text),
            ("case", pa.int64()),
            ("anchor", number),
            ("candidate", number),
            ("order", pa.int64()),
            ("prompt_tokens", number),
            ("new_tokens", number),
        ]
    )
    left = Counter(openings)
    keys: dict[int, set[bytes]] = {}
    sums: Counter[str] = Counter()
    order = 0
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    shown: tuple[Message, ...] = ()
    with pq.ParquetWriter(folder / ASKS, schema, compression="zstd") as writer:
        for place, case in enumerate(Cases(folder / CASES)):
            opening = openings[place]
            known = keys.setdefault(opening, set())
            common = _common_tokens(shown, case.messages)
            # What a sample costs to write is not known before; the actions taken are its measure.
            written = {
                step: _COUNTER.count(action) + 1 for step, action in enumerate(case.actions, 1)
            }
            anchors = set()
            first = True
            for ask in asks(place, case, settings, start=order):
                anchors.add(ask.anchor)
                sums["pairs"] += ask.candidate > 0 and ask.kind == _ASKED[settings.kinds[0]]
                digest = bytes.fromhex(ask.key)[:16]
                if digest in known:
                    sums["shared"] += 1
                    continue
                known.add(digest)
                new = max(0, ask.new_tokens - common) if first else ask.new_tokens
                first = False
                for name, values in columns.items():
                    values.append(getattr(ask, name))
                columns["order"][-1] = order
                columns["new_tokens"][-1] = new
                order += 1
                sums["prompt_tokens"] += ask.prompt_tokens
                sums["new_tokens"] += new
                sums["output_tokens"] += (
                    settings.samples * min(written[ask.anchor], settings.max_tokens)
                    if ask.kind == "sample"
                    else written[ask.anchor]
                )
            if anchors:
                shown = case.messages
                sums["trajectories"] += 1
                sums["anchors"] += len(anchors)
            left[opening] -= 1
            if not left[opening]:
                del keys[opening], left[opening]
            if len(columns["key"]) >= _BLOCK:
                writer.write_table(pa.table(columns, schema=schema))
                columns = {name: [] for name in schema.names}
        if columns["key"]:
            writer.write_table(pa.table(columns, schema=schema))
    names = ("trajectories", "anchors", "pairs", "shared")
    tokens = ("prompt_tokens", "new_tokens", "output_tokens")
    return Summary(
        **{name: sums[name] for name in (*names, *tokens)},
        calls=order,
        passed_over=len(openings) - sums["trajectories"],
    )


def _common_tokens(before: tuple[Message, ...], now: tuple[Message, ...]) -> int:
    """Return the tokens of the messages that two conversations both begin with."""
    tokens = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            break
        tokens += MESSAGE_TOKENS + _COUNTER.count(one["content"])
    return tokens


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PlanError(str(path.parent), f"has no {path.name} that can be read") from error


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError(__name__, "train") from error
    return pa, pq
