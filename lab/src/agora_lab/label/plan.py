"""A plan: which prompts to ask a backbone, in which order, each keyed by its content.

Prompts are ordered for the server's prefix cache. First come the whole prompts
of all anchors of a trajectory, each extending the previous one by a step. Then,
for each candidate from last to first, the prompts without it, again anchor by
anchor: only the first has to be read from the candidate on, each later one adds
just its last step. Ordered by anchor instead, every prompt would be read from its
candidate on. The whole prompts are asked once, for all candidates.
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
from agora.errors import AgoraError
from agora_lab.label.cases import Case, Message, joined
from agora_lab.label.growing_prompt import (
    COUNTER,
    GrowingPrompt,
    canonical_bytes,
    common_tokens,
)

SCHEMA = 1
"""Part of every key: a question asked differently is a different question."""
PLAN, CASES, ASKS = "plan.json", "cases.parquet", "asks.parquet"

Kind = Literal["counterfactual", "likelihood"]
AskKind = Literal["sample", "score"]
_ASKED: Mapping[Kind, AskKind] = {"counterfactual": "sample", "likelihood": "score"}


class PlanError(AgoraError):
    """A plan that cannot be made, or whose files do not match."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the plan {self.folder!r} {self.problem}" if self.folder else self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """Which labels to make, with which backbone, and how much to ask."""

    backbone: str
    revision: str = ""
    """Version of the weights: the SHA-256 of the file, or the vendor's name for it."""
    kinds: tuple[Kind, ...] = ("counterfactual",)
    samples: int = 8
    """Samples per prompt. The paper's K counts both sides: its 8 is 4 here."""
    temperature: float = 1.0
    max_tokens: int = 48
    stop: tuple[str, ...] = ()
    seed: int = 0
    k_recent: int = 2
    anchors: int | None = None
    """Most anchors per trajectory, drawn by the seed."""
    candidates: int | None = None
    """Most candidates per anchor, drawn by the seed."""
    longest: int | None = None
    """Anchors with longer prompts, by our estimate, are skipped."""

    def __post_init__(self) -> None:
        for name in ("samples", "max_tokens", "anchors", "candidates", "longest"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError("", f"{name} must be at least 1, not {value!r}")
        if not self.kinds or set(self.kinds) - set(_ASKED):
            raise PlanError("", f"kinds must be {' or '.join(_ASKED)}, not {self.kinds!r}")

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the settings in a plan's file."""
        return cls(**{**found, "kinds": tuple(found["kinds"]), "stop": tuple(found["stop"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A reference to one prompt to ask, without its text."""

    key: str
    """Hash of everything the answer can depend on."""
    kind: AskKind
    case: int
    """The row of the case in the file of cases."""
    anchor: int
    """The number of the step whose action is asked for."""
    candidate: int
    """The number of the omitted step; 0 for none."""
    order: int
    """Its place in the plan."""
    prompt_tokens: int
    """By our estimate."""
    new_tokens: int
    """Of those, the ones not shared with the start of the previous prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent to the backbone for an ask."""

    key: str
    kind: AskKind
    messages: tuple[Message, ...]
    samples: int
    seed: int
    """Derived from the key, so that samples of two prompts are independent."""
    temperature: float
    max_tokens: int
    stop: tuple[str, ...]
    continuation: str | None
    """The text to score, if it is a score."""


def asks(number: int, case: Case, settings: PlanSettings, *, start: int = 0) -> Iterator[Ask]:
    """Return the asks about a case, in order: each whole prompt before those without a step.

    Two asks with the same key ask the same question; `write_plan` leaves out the
    second one.
    """
    anchors = _anchors(case, settings)
    if not anchors:
        return
    tail = _tails(settings)
    builder = GrowingPrompt()
    at = 0
    before = 0
    order = start
    starts: dict[int, GrowingPrompt] = {}
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


def pairs(case: Case, settings: PlanSettings) -> Iterator[tuple[int, int]]:
    """Return the planned pairs of anchor and candidate in a case."""
    for anchor, candidates in _anchors(case, settings).items():
        for candidate in candidates:
            yield anchor, candidate


def request(ask: Ask, case: Case, settings: PlanSettings) -> Request:
    """Return what is sent for an ask, built from the case.

    Raises:
        PlanError: the case is not the one the ask was planned for.
    """
    messages = case.prompt(ask.anchor, ask.candidate)
    action = case.actions[ask.anchor - 1]
    key = request_key(messages, ask.kind, settings, action)
    if key != ask.key:
        raise PlanError(
            "",
            f"ask {ask.order} (case {ask.case}, anchor {ask.anchor}, candidate {ask.candidate}) "
            "has a key that does not match its prompt: cases, settings and asks are from "
            "different plans; make the plan again",
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


def request_key(
    messages: Iterable[Message], kind: AskKind, settings: PlanSettings, action: str
) -> str:
    """Return the key of a prompt: a hash of exactly what its answer can depend on.

    A score does not depend on how answers are sampled, nor a sample on the action
    that was taken.
    """
    builder = GrowingPrompt()
    for message in messages:
        builder.add(message)
    return builder.key(_tails(settings)(kind, action))


class _Tail:
    """The part of a key that comes after the prompt."""

    def __init__(self, settings: PlanSettings) -> None:
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
        self._sample = canonical_bytes({**self._about, "kind": "sample", **sampling})

    def __call__(self, kind: AskKind, action: str) -> bytes:
        if kind == "sample":
            return self._sample
        return canonical_bytes({**self._about, "kind": "score", "continuation": action})


@lru_cache(maxsize=16)
def _tails(settings: PlanSettings) -> _Tail:
    return _Tail(settings)


def _anchors(case: Case, settings: PlanSettings) -> dict[int, list[int]]:
    """Return the anchors of a case with their candidates, up to the limits in the settings."""
    found: dict[int, list[int]] = {}
    for anchor in range(settings.k_recent + 2, len(case.steps) + 1):
        before = case.steps[anchor - 1][0] - 1
        # An action without text cannot be scored, and sampling it says nothing. After
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
    builder = GrowingPrompt()
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
    """What a plan contains and will cost, before anything is asked."""

    trajectories: int
    """Trajectories with at least one ask."""
    passed_over: int
    """Trajectories with no past outside the floor, too long, or duplicates."""
    anchors: int
    pairs: int
    """Pairs of an anchor and a candidate: labels of each kind."""
    calls: int
    shared: int
    """Asks left out as duplicates."""
    prompt_tokens: int
    """Of all prompts, by our estimate."""
    new_tokens: int
    """Of those, what a server that caches the previous prompt has to read."""
    output_tokens: int
    """Tokens generated if answers are as long as the recorded actions; scores included."""

    def dollars(self, sheet: PriceSheet) -> tuple[float, float]:
        """Return the cost without the provider's cache, and with the best use of it."""
        without = sheet.dollars(uncached=self.prompt_tokens, output=self.output_tokens)
        used = sheet.dollars(
            written=self.new_tokens if sheet.caches else 0,
            uncached=0 if sheet.caches else self.prompt_tokens,
            read=self.prompt_tokens - self.new_tokens if sheet.caches else 0,
            output=self.output_tokens,
        )
        return without, used

    def hours(self, *, prompt_rate: float, output_rate: float) -> float:
        """Return the hours one server takes at these reading and writing speeds."""
        return (self.new_tokens / prompt_rate + self.output_tokens / output_rate) / 3600


def write_plan(folder: Path, cases: Iterable[Case], settings: PlanSettings) -> Summary:
    """Write a plan: its cases, the asks in order, and last the plan file.

    Cases are streamed. Memory holds a few hundred bytes per case, plus the keys of
    those whose task occurs more than once: only they can ask the same question.
    Duplicate cases are left out.

    Raises:
        PlanError: the folder already holds a plan, or there is nothing to ask.
    """
    if (folder / PLAN).exists():
        raise PlanError(str(folder), "already exists; use another folder, or remove it")
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
    # Written last: if this file exists, the others are complete.
    draft.replace(folder / PLAN)
    return summary


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan in its folder."""

    folder: Path
    settings: PlanSettings
    summary: Summary
    digest: str
    """Hash of the whole plan: plans with the same hash ask the same questions."""

    @property
    def asks_file(self) -> Path:
        """The file of the asks, one row each, in order."""
        return self.folder / ASKS

    def cases(self) -> "Cases":
        """Return its cases, read lazily."""
        return Cases(self.folder / CASES)

    def asks(self) -> Iterator[Ask]:
        """Return the asks, in order."""
        names = [field.name for field in fields(Ask)]
        pa, pq = _arrow()
        try:
            with pq.ParquetFile(self.asks_file) as file:
                for batch in file.iter_batches(columns=names):
                    for row in batch.to_pylist():
                        yield Ask(**row)
        except (OSError, pa.ArrowException) as error:
            raise PlanError(str(self.folder), f"has no readable {ASKS}: {error}") from error


def read_plan(folder: Path, *, check: bool = False) -> Plan:
    """Return the plan in a folder; with `check`, its files are verified by hash.

    Raises:
        PlanError: there is none, or its files have changed.
    """
    try:
        text = (folder / PLAN).read_bytes()
        found = json.loads(text)
        settings = PlanSettings.from_json(found["settings"])
        summary = Summary(**found["summary"])
        files = dict(found["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanError(str(folder), f"has no readable {PLAN} ({error})") from error
    if found["schema"] != SCHEMA:
        raise PlanError(str(folder), f"has schema {found['schema']}, not {SCHEMA}; make it again")
    if check:
        changed = [name for name, digest in files.items() if _hash(folder / name) != digest]
        if changed:
            raise PlanError(str(folder), f"has a changed {' and '.join(changed)}; make it again")
    return Plan(folder, settings, summary, hashlib.sha256(text).hexdigest())


class Cases:
    """The cases of a plan by number, with a few row groups in memory at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            PlanError: it cannot be read.
        """
        pa, pq = _arrow()
        try:
            self._file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise PlanError(str(path.parent), f"has no readable {CASES}: {error}") from error
        self._count = self._file.metadata.num_rows
        self._groups: dict[int, list[Case]] = {}

    def __len__(self) -> int:
        return int(self._count)

    def __getitem__(self, number: int) -> Case:
        if not 0 <= number < self._count:
            raise IndexError(f"no case {number}; there are {self._count}")
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
"""Cases in a row group, the unit of reading."""
_HELD = 4
"""Row groups held at a time."""
_SUMMED = (
    *("trajectories", "anchors", "pairs", "shared"),
    *("prompt_tokens", "new_tokens", "output_tokens"),
)
_BLOCK = 512
"""Fewest asks in a row group, so that a block is whole trajectories and not too small."""


def _write_cases(path: Path, cases: Iterable[Case]) -> tuple["array[int]", int]:
    """Write the cases; return a fingerprint of each one's opening, and the duplicate count."""
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
    """Return a fingerprint of the common start of the case's prompts."""
    before = case.messages[: case.steps[0][0]] if case.steps else case.messages
    digest = hashlib.sha256(
        canonical_bytes([[one["role"], one["content"]] for one in joined(before)])
    )
    return int.from_bytes(digest.digest()[:8], "big")


def _ask_schema(pa: Any) -> Any:
    number, large, text = pa.int32(), pa.int64(), pa.string()
    kinds = {"key": text, "kind": text, "case": large, "order": large}
    return pa.schema([(one.name, kinds.get(one.name, number)) for one in fields(Ask)])


def _write_asks(folder: Path, settings: PlanSettings, openings: "array[int]") -> Summary:
    pa, pq = _arrow()
    schema = _ask_schema(pa)
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
            common = common_tokens(shown, case.messages)
            # The length of a sample is unknown beforehand; the recorded actions stand in for it.
            written = {
                step: COUNTER.count(action) + 1 for step, action in enumerate(case.actions, 1)
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
    passed_over = len(openings) - sums["trajectories"]
    return Summary(**{name: sums[name] for name in _SUMMED}, calls=order, passed_over=passed_over)


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PlanError(str(path.parent), f"has no readable {path.name}") from error


def _arrow() -> tuple[Any, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa, pq
