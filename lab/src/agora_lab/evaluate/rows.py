"""An episode as one row: the input of every table, test and plot.

A run of gigabytes becomes a file of a few megabytes, and a report made from the
rows is the same bytes as one made from the run, so the rows can be kept with the
report when the episodes are too large.
"""

import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.prices import PriceSheet
from agora.core.tokens import MESSAGE_TOKENS, EstimatedTokens
from agora_lab.agents import content_text
from agora_lab.episodes.episode import Cell, Episode, Timing
from agora_lab.episodes.run import (
    SETTINGS,
    RunError,
    read_episodes,
    read_settings,
    read_timings,
)

SCHEMA = 1
ROWS = "rows.jsonl.gz"
ORIGINS = "origins.jsonl"
"""The code and packages a run was played with, one line per start."""
SKIPPED = "skipped.json"
FAILURES = "failures"
CUT_OFF = "length"
_COUNTER = EstimatedTokens()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of one episode."""

    environment: str
    backbone: str
    method: str
    seed: int
    task: str
    reward: float
    steps: int
    ended: str
    valid: int
    """Actions that the environment understood."""
    tokens_sent: int
    """Tokens shown to the backbone over all calls, by our estimate."""
    tokens_whole: int
    """Tokens the same calls would have shown uncompressed, by the same estimate."""
    input_tokens: int
    """Tokens counted by the backbone; 0 if it counts none."""
    cached_tokens: int
    output_tokens: int
    """Tokens counted by the backbone, or our estimate of its answers."""
    method_input_tokens: int
    method_output_tokens: int
    changed: int
    """Calls at which the method changed the prompt."""
    duplicates: int
    """Actions that the agent had already taken in this episode."""
    wasted: int
    """Repeated actions that led to the same observation as before."""
    longest_run: int
    """The longest streak of one action."""
    cut_off: int
    """Truncated answers."""
    finishes: int
    """Answers whose finish reason is known."""
    trajectory: str
    """A hash of instructions, observations, actions and rewards."""
    bills: Mapping[str, float]
    """Dollars by price sheet, with the prefix cache, output and the method's own calls."""
    method_ms: tuple[float, ...] = ()
    method_cpu_s: float = 0.0
    seconds: float = 0.0
    """How long the episode took to play."""

    @property
    def cell(self) -> Cell:
        """The cell it belongs to."""
        return Cell(
            environment=self.environment,
            backbone=self.backbone,
            method=self.method,
            seed=self.seed,
        )

    @property
    def key(self) -> str:
        """The key of the episode."""
        return self.cell.key(self.task)

    @property
    def sent(self) -> int:
        """Input tokens counted by the backbone, or our estimate if it counts none."""
        return self.input_tokens or self.tokens_sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The input of a report: rows ordered by key, and their provenance."""

    rows: tuple[Row, ...]
    runs: tuple[Mapping[str, Any], ...]
    """The settings, origins, skipped cells and failed episodes of each run."""
    sheets: Mapping[str, Mapping[str, Any]]
    """The price sheets the rows were billed by."""


def digest(episode: Episode, timing: Timing | None, sheets: Mapping[str, PriceSheet]) -> Row:
    """Return the row of an episode."""
    moves = episode.moves
    seen: dict[str, set[str]] = {}
    duplicates = wasted = longest = run = 0
    last = None
    for move in moves:
        action = " ".join(move.action.lower().split())
        before = seen.setdefault(action, set())
        duplicates += bool(before)
        wasted += move.observation in before
        before.add(move.observation)
        run = run + 1 if action == last else 1
        longest = max(longest, run)
        last = action
    shown = [_shown(episode, at) for at in range(len(moves))]
    return Row(
        environment=episode.cell.environment,
        backbone=episode.cell.backbone,
        method=episode.cell.method,
        seed=episode.cell.seed,
        task=episode.task,
        reward=episode.reward,
        steps=len(moves),
        ended=episode.ended,
        valid=sum(move.valid for move in moves),
        tokens_sent=sum(move.tokens_sent for move in moves),
        tokens_whole=sum(move.tokens_whole for move in moves),
        input_tokens=sum(move.input_tokens for move in moves),
        cached_tokens=sum(move.cached_tokens for move in moves),
        output_tokens=sum(move.output_tokens or _COUNTER.count(move.answer) for move in moves),
        method_input_tokens=sum(move.method_input_tokens for move in moves),
        method_output_tokens=sum(move.method_output_tokens for move in moves),
        changed=sum(list(move.sent) != list(range(2 * at + 2)) for at, move in enumerate(moves)),
        duplicates=duplicates,
        wasted=wasted,
        longest_run=longest,
        cut_off=sum(move.finish == CUT_OFF for move in moves),
        finishes=sum(bool(move.finish) for move in moves),
        trajectory=_hash(episode),
        bills=_bills(episode, shown, sheets),
        method_ms=timing.method_ms if timing else (),
        method_cpu_s=timing.method_cpu_s if timing else 0.0,
        seconds=round(timing.environment_s + timing.method_s + timing.backbone_s, 3)
        if timing
        else 0.0,
    )


def gather(folders: Sequence[Path], sheets: Mapping[str, PriceSheet]) -> Material:
    """Return the contents of run folders, or of folders with the rows of a report.

    Raises:
        RunError: a folder holds neither, or two hold different episodes under one key.
    """
    found: dict[str, Row] = {}
    runs: list[Mapping[str, Any]] = []
    known = {name: _sheet(sheet) for name, sheet in sheets.items()}
    for folder in folders:
        if (folder / SETTINGS).exists():
            own: tuple[Mapping[str, Any], ...] = (_run(folder),)
            rows: Iterable[Row] = _digest_run(folder, sheets)
        elif (folder / ROWS).exists():
            left = read(folder / ROWS)
            own, rows, known = left.runs, left.rows, {**left.sheets}
        else:
            raise RunError(str(folder), f"holds no {SETTINGS} and no {ROWS}")
        runs += own
        for row in rows:
            other = found.setdefault(row.key, row)
            if other.trajectory != row.trajectory:
                raise RunError(
                    str(folder),
                    f"has a different episode for {row.key!r} than an earlier run; "
                    "report on them separately",
                )
    return Material(rows=tuple(found[key] for key in sorted(found)), runs=tuple(runs), sheets=known)


def write(material: Material, folder: Path) -> None:
    """Write the rows to a folder; the same rows give the same bytes."""
    # A list, since it sets the order of the table columns.
    sheets = list(material.sheets.items())
    head = {"schema": SCHEMA, "runs": material.runs, "sheets": sheets}
    buffer = io.BytesIO()
    # Without file name and modification time.
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0, compresslevel=9) as file:
        file.write(_line(head))
        for row in material.rows:
            file.write(_line(asdict(row)))
    (folder / ROWS).write_bytes(buffer.getvalue())


def _digest_run(folder: Path, sheets: Mapping[str, PriceSheet]) -> Iterator[Row]:
    timings = read_timings(folder)
    for episode in read_episodes(folder):
        yield digest(episode, timings.get(episode.key), sheets)


def _run(folder: Path) -> Mapping[str, Any]:
    settings = read_settings(folder)
    if "grid" not in settings:
        raise RunError(str(folder), "does not record what was played; play it again")
    skipped = folder / SKIPPED
    failures: dict[str, str] = {}
    for file in sorted((folder / FAILURES).glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            failed = json.loads(line)
            failures[failed["key"]] = failed["error"]
    origins = folder / ORIGINS
    found = {
        "settings": settings,
        "origins": [json.loads(line) for line in origins.read_text("utf-8").splitlines()]
        if origins.exists()
        else [],
        "skipped": json.loads(skipped.read_text(encoding="utf-8")) if skipped.exists() else {},
        "failures": failures,
    }
    # In the order they have when read back from a file of rows.
    run: Mapping[str, Any] = json.loads(json.dumps(found, sort_keys=True))
    return run


def read(path: Path) -> Material:
    """Return the contents of a file of rows.

    Raises:
        RunError: it has another schema.
    """
    lines = gzip.decompress(path.read_bytes()).splitlines()
    head = json.loads(lines[0])
    if head.get("schema") != SCHEMA:
        raise RunError(str(path), f"is not of schema {SCHEMA}")
    names = {field.name for field in fields(Row)}
    rows = []
    for line in lines[1:]:
        values = {name: value for name, value in json.loads(line).items() if name in names}
        values["method_ms"] = tuple(values["method_ms"])
        rows.append(Row(**values))
    return Material(rows=tuple(rows), runs=tuple(head["runs"]), sheets=dict(head["sheets"]))


def _line(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return text.encode("ascii") + b"\n"


def _sheet(sheet: PriceSheet) -> Mapping[str, Any]:
    names = ("name", "input", "read", "write", "output", "minimum_prefix", "block", "breakpoints")
    return {name: getattr(sheet, name) for name in names}


def _hash(episode: Episode) -> str:
    value = [
        episode.system,
        episode.opening,
        [[move.action, move.observation, move.reward] for move in episode.moves],
    ]
    data = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(data.encode("ascii")).hexdigest()[:24]


def _shown(episode: Episode, at: int) -> list[Segment]:
    """Return the prompt before a move as a cache compares it.

    A marker after an observation that appears verbatim is a separate piece.
    """
    texts = _texts(episode, at)
    segments: list[Segment] = []
    place = -1
    for one in episode.moves[at].sent:
        rest = ""
        if isinstance(one, int):
            place = one
            text = texts[place]
        else:
            text = content_text(one.get("content"))
            following = place + 1
            observed = one.get("role") in ("user", "tool")
            added_to = following % 2 and following < len(texts) and observed
            if not added_to or not text.startswith(texts[following]):
                segments.append(_segment(text))
                continue
            place = following
            text, rest = texts[place], text[len(texts[place]) :]
        # Like agents that use caching: the end of the constant prefix is marked.
        segments.append(_segment(text, breakpoint=place == 1))
        if rest:
            segments.append(_segment(rest))
    newest = segments[-1]
    segments[-1] = Segment(newest.key, newest.tokens, breakpoint=True)
    return segments


def _texts(episode: Episode, at: int) -> list[str]:
    texts = [episode.system, episode.opening]
    for move in episode.moves[:at]:
        texts += (move.answer, move.observation)
    return texts


def _segment(text: str, *, breakpoint: bool = False) -> Segment:  # noqa: A002
    return Segment(text, MESSAGE_TOKENS + _COUNTER.count(text), breakpoint)


def _bills(
    episode: Episode, prompts: Sequence[Sequence[Segment]], sheets: Mapping[str, PriceSheet]
) -> dict[str, float]:
    """Return the cost of the calls by each sheet, starting with an empty cache."""
    bills = {}
    output = sum(
        (move.output_tokens or _COUNTER.count(move.answer)) + move.method_output_tokens
        for move in episode.moves
    )
    asked = sum(move.method_input_tokens for move in episode.moves)
    for name, sheet in sheets.items():
        cache = PrefixCache(sheet)
        dollars = sum(cache.send(prompt).dollars for prompt in prompts)
        bills[name] = round(dollars + sheet.dollars(uncached=asked, output=output), 9)
    return bills
