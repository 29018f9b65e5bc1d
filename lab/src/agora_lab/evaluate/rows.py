"""An episode as one row: the input of every table, test and plot.

A run of hundreds of megabytes becomes a file of one, and a report made from the rows is the report
made from the run. So the rows are kept where the episodes are too large.
"""

import gzip
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from agora import EstimatedTokens, PriceSheet, sheet_for
from agora_lab.chats import message_text
from agora_lab.episodes import (
    FAILURES,
    PROMPTS,
    SETTINGS,
    TIMINGS,
    Cell,
    Episode,
    RunError,
    read_episodes,
    read_settings,
)
from agora_lab.jsonl import read_lines

SCHEMA = 2
ROWS = "rows.jsonl.gz"
PRICES = ("gpt-4o-mini", "gpt-5-mini", "claude-sonnet-4-5", "gpt-5")
_CUT_OFF = "length"
_MESSAGE_TOKENS = 4
"""Tokens of a message's role and frame."""
_COUNTER = EstimatedTokens()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of an episode."""

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
    """Prompt tokens of all calls, as the backbone counts them or by our estimate."""
    tokens_shown: int
    """Prompt tokens of all calls, by our estimate."""
    tokens_whole: int
    """Prompt tokens of the same calls uncompressed, by the same estimate."""
    output_tokens: int
    method_input_tokens: int
    method_output_tokens: int
    repeated: int
    """Actions that the agent had already taken in the episode."""
    longest_run: int
    """The longest streak of one action."""
    cut_off: int
    """Truncated answers."""
    trajectory: str
    """A hash of instructions, observations, actions and rewards."""
    dollars: Mapping[str, float]
    """By price sheet, with the prefix cache, the output and the method's own calls."""
    method_s: float = 0.0
    seconds: float = 0.0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The input of a report."""

    rows: tuple[Row, ...]
    prompts: Mapping[str, Sequence[Mapping[str, Any]]]
    """The methods' effects on the uncompressed prompts, call by call, by episode."""
    runs: tuple[Mapping[str, Any], ...]
    """The settings, origins and failures of each run."""


def gather(folders: Sequence[Path], *, prices: Sequence[str] = PRICES) -> Material:
    """Return the contents of run folders, or of folders with the rows of a report.

    Raises:
        RunError: A folder holds neither, or two hold different episodes under one key.
    """
    rows: dict[str, Row] = {}
    prompts: dict[str, Sequence[Mapping[str, Any]]] = {}
    runs: list[Mapping[str, Any]] = []
    for folder in folders:
        if (folder / SETTINGS).exists():
            part = _read_run(folder, prices)
        elif (folder / ROWS).exists():
            part = read(folder / ROWS)
        else:
            raise RunError(str(folder), f"holds no {SETTINGS} and no {ROWS}")
        runs += part.runs
        prompts |= part.prompts
        for row in part.rows:
            if rows.setdefault(row.key, row).trajectory != row.trajectory:
                raise RunError(
                    str(folder),
                    f"has a different episode for {row.key!r} than an earlier run; report on "
                    "them separately",
                )
    return Material(
        rows=tuple(rows[key] for key in sorted(rows)),
        prompts={key: prompts[key] for key in sorted(prompts)},
        runs=tuple(runs),
    )


def digest(episode: Episode, timing: Mapping[str, Any], sheets: Sequence[PriceSheet]) -> Row:
    """Return the row of an episode."""
    moves = episode.moves
    actions = [" ".join(move.action.lower().split()) for move in moves]
    longest = streak = 0
    for at, action in enumerate(actions):
        streak = streak + 1 if at and action == actions[at - 1] else 1
        longest = max(longest, streak)
    output = sum(move.output_tokens or _COUNTER.count(move.answer) for move in moves)
    asked = sum(move.method_input_tokens for move in moves)
    told = sum(move.method_output_tokens for move in moves)
    prompts = [[message_text(m) for m in episode.shown(at)] for at in range(len(moves))]
    seconds = {name: timing.get(f"{name}_s", 0.0) for name in ("environment", "method", "backbone")}
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
        tokens_sent=sum(move.input_tokens or move.tokens_sent for move in moves),
        tokens_shown=sum(move.tokens_sent for move in moves),
        tokens_whole=sum(move.tokens_whole for move in moves),
        output_tokens=output,
        method_input_tokens=asked,
        method_output_tokens=told,
        repeated=len(actions) - len(set(actions)),
        longest_run=longest,
        cut_off=sum(move.finish == _CUT_OFF for move in moves),
        trajectory=_trajectory_hash(episode),
        dollars={
            sheet.name: round(
                cached_dollars(prompts, sheet)
                + sheet.dollars(uncached=asked, output=output + told),
                9,
            )
            for sheet in sheets
        },
        method_s=round(seconds["method"], 4),
        seconds=round(sum(seconds.values()), 3),
    )


def cached_dollars(prompts: Sequence[Sequence[str]], sheet: PriceSheet) -> float:
    """Return the cost of an episode's prompts with a prefix cache that starts empty.

    The longest prefix of whole messages that an earlier prompt began with is read, in whole blocks
    and from the provider's minimum on. The rest is written, or billed as new.
    """
    seen: set[int] = set()
    dollars = 0.0
    for prompt in prompts:
        chain = size = shared = 0
        for text in prompt:
            chain = hash((chain, text))
            size += _MESSAGE_TOKENS + _COUNTER.count(text)
            if chain in seen:
                shared = size
            seen.add(chain)
        block = max(1, sheet.block)
        read = shared // block * block
        if not sheet.caches or size < sheet.minimum_prefix:
            dollars += sheet.dollars(uncached=size)
            continue
        read = read if read >= sheet.minimum_prefix else 0
        written = size // block * block - read
        dollars += sheet.dollars(uncached=size - read - written, read=read, written=written)
    return dollars


def write(material: Material, folder: Path) -> None:
    """Write the rows to a folder; the same rows give the same bytes."""
    buffer = io.BytesIO()
    # Without file name and modification time.
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0, compresslevel=9) as file:
        file.write(_line({"schema": SCHEMA, "runs": material.runs}))
        for row in material.rows:
            file.write(_line(asdict(row)))
        for key, calls in material.prompts.items():
            file.write(_line({"key": key, "calls": calls}))
    (folder / ROWS).write_bytes(buffer.getvalue())


def read(path: Path) -> Material:
    """Return the contents of a file of rows.

    Raises:
        RunError: It has another schema.
    """
    head, *lines = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    if head.get("schema") != SCHEMA:
        raise RunError(str(path), f"is not of schema {SCHEMA}")
    names = {field.name for field in fields(Row)}
    rows = [line for line in lines if "calls" not in line]
    return Material(
        rows=tuple(Row(**{k: v for k, v in row.items() if k in names}) for row in rows),
        prompts={line["key"]: line["calls"] for line in lines if "calls" in line},
        runs=tuple(head["runs"]),
    )


def _read_run(folder: Path, prices: Sequence[str]) -> Material:
    sheets = [sheet_for(name) for name in prices]
    timings = {line["key"]: line for line in read_lines(folder / TIMINGS)}
    settings = read_settings(folder)
    if "experiment" not in settings:
        raise RunError(str(folder), "does not record what was played; play it again")
    run = {
        "settings": settings,
        "origins": list(read_lines(folder / "origins.jsonl")),
        "skipped": {
            line["key"]: line["skipped"]
            for line in read_lines(folder / FAILURES)
            if "skipped" in line
        },
        "failed": {
            line["key"]: line["error"] for line in read_lines(folder / FAILURES) if "error" in line
        },
    }
    return Material(
        rows=tuple(_digests(folder, timings, sheets)),
        prompts={line["key"]: line["calls"] for line in read_lines(folder / PROMPTS)},
        runs=(json.loads(json.dumps(run, sort_keys=True)),),
    )


def _digests(
    folder: Path, timings: Mapping[str, Mapping[str, Any]], sheets: Sequence[PriceSheet]
) -> Iterator[Row]:
    for episode in read_episodes(folder):
        yield digest(episode, timings.get(episode.key, {}), sheets)


def _trajectory_hash(episode: Episode) -> str:
    moves = [[move.action, move.observation, move.reward] for move in episode.moves]
    data = json.dumps([episode.system, episode.opening, moves], ensure_ascii=True)
    return hashlib.sha256(data.encode("ascii")).hexdigest()[:24]


def _line(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return text.encode("ascii") + b"\n"
