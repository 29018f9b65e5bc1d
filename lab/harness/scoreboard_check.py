"""Recomputes two contenders of the scoreboard on Claude Code sessions, apart from its code.

python -m lab.harness.scoreboard_check ROWS.jsonl|ROWS.parquet: prints both bills of every session
found, and their sums. It shares with the scoreboard only the reader of logs, the token estimate and
the list prices; messages, calibration, cache and contenders are written again.
"""

import hashlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from agora import EstimatedTokens, sheet_for
from agora.logs import Recording, Tally, read_logs
from agora_lab.envs.data import cache_folder

COUNT = EstimatedTokens().count
CHECKED = {"N=10": 10, "N=5": 5}
HIT = 0.9


def items_of(recording: Recording) -> tuple[list[tuple[str, str, int]], list[int]]:
    """Return (kind, text, tokens) of each piece, a result by itself, and where messages begin."""
    items: list[tuple[str, str, int]] = []
    starts: list[int] = []
    for message in recording.messages:
        starts.append(len(items))
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if message["role"] == "assistant":
            items.append(("answer", "", size_of_answer(blocks)))
            continue
        for block in blocks:
            kind = "result" if block["type"] == "tool_result" else "user"
            text = text_of(block.get("content") if kind == "result" else [block])
            items.append((kind, text, 4 + COUNT(text)))
    return items, [*starts, len(items)]


def size_of_answer(blocks: list[dict[str, Any]]) -> int:
    """Return the estimated tokens of an answer: text, calls and thinking."""
    tokens = 4 + COUNT("\n".join(b["text"] for b in blocks if b["type"] == "text"))
    for block in blocks:
        if block["type"] == "tool_use":
            arguments = json.dumps(block["input"], ensure_ascii=False)
            tokens += COUNT(str({"name": block["name"], "arguments": arguments}))
        elif block["type"] == "thinking":
            tokens += COUNT(block["thinking"])
    return tokens


def text_of(content: Any) -> str:
    """Return a result's text."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(b.get("text", "") if b["type"] == "text" else "[image]" for b in content)


def calibrated(sizes: list[int], calls: list[int], billed: list[int]) -> tuple[int, list[float]]:
    """Return the tokens before the first message, and each piece in the provider's tokens."""
    sums = [sum(sizes[:call]) for call in calls]
    grown = [
        ((b2 - b1) / (s2 - s1), s2 - s1)
        for b1, b2, s1, s2 in zip(billed, billed[1:], sums, sums[1:], strict=False)
        if s2 > s1
    ]
    weighted = sorted(ratio for ratio, weight in grown for _ in range(max(1, weight // 10)))
    scale = min(2.0, max(0.7, statistics.median(weighted))) if weighted else 1.0
    before = billed[0] - scale * sums[0]
    if before < 0:
        before, scale = 0, sum(billed) / sum(sums)
    tokens = [size * scale for size in sizes]
    owed = 0.0
    for at in range(1, len(calls)):
        owed += (billed[at] - billed[at - 1]) - scale * (sums[at] - sums[at - 1])
        extra = max(owed, -tokens[calls[at - 1]])
        tokens[calls[at - 1]] += extra
        owed -= extra
    return round(before), tokens


def bill(recording: Recording, keep: int) -> tuple[float, float]:
    """Return the input bill of sending everything, and of masking all but the newest results."""
    items, starts = items_of(recording)
    calls = [starts[at] for at in recording.calls]
    items = items[: calls[-1] + 1]
    usage = recording.usage
    before, tokens = calibrated([i[2] for i in items], calls, [u.prompt for u in usage])
    sheet = sheet_for(recording.model or "").for_ttl(recording.ttl)
    scale = tokens_scale(items, tokens)
    mask = (4 + COUNT("[old tool result left out]")) * scale
    whole = masked = 0.0
    hidden: set[int] = set()
    last: dict[str, float] = {}
    for number, call in enumerate(calls):
        results = [at for at in range(call) if items[at][0] == "result" and at not in hidden]
        edited = len(results) >= 2 * keep
        if edited:
            hidden.update(results[:-keep])
        lost = number == 0 or usage[number].read < HIT * (
            usage[number - 1].read + usage[number - 1].written
        )
        for name in ("whole", "masked"):
            size = before + sum(
                mask if name == "masked" and at in hidden else tokens[at] for at in range(call)
            )
            read = last.get(name, 0.0)
            if name == "masked" and edited:
                read = min(read, before)
            if lost:
                read = held(usage[number].read, before, tokens[:call], hidden, mask, name)
            price = read * sheet.read + (size - read) * sheet.write
            dollars = price * sheet.input / 1e6 * sheet.tier(size).input
            whole, masked = (
                (whole + dollars, masked) if name == "whole" else (whole, masked + dollars)
            )
            last[name] = size
    return whole, masked


def held(
    read: int, before: int, tokens: list[float], hidden: set[int], mask: float, name: str
) -> float:
    """Return what was left in a cache that lost the rest: whole pieces, from the beginning."""
    if read < before:
        return read if read > 0 else 0.0
    size = float(before)
    for at, own in enumerate(tokens):
        piece = mask if name == "masked" and at in hidden else own
        if size + piece > read * 1.01:
            break
        size += piece
    return size


def tokens_scale(items: list[tuple[str, str, int]], tokens: list[float]) -> float:
    """Return the provider's tokens for each estimated one."""
    pairs = [(t, i[2]) for t, i in zip(tokens, items, strict=True) if i[0] == "result"]
    return sum(t for t, _ in pairs) / max(1, sum(size for _, size in pairs))


def main(path: Path) -> None:
    """Print both bills of each session in the rows, and how far apart their sums are."""
    rows = [json.loads(line) for line in path.open()] if path.suffix == ".jsonl" else stored(path)
    theirs = {(r["session"], r["setting"]): r["dollars"]["own"] for r in rows if wanted(r)}
    sums: dict[str, list[float]] = {}
    tally = Tally()
    for file in sorted(cache_folder("sessions").rglob("*.jsonl")):
        for recording in read_logs([file], tally):
            key = hashlib.blake2b(recording.id.encode(), digest_size=6).hexdigest()
            for setting, keep in CHECKED.items():
                if (key, setting) in theirs:
                    whole, masked = bill(recording, keep)
                    for name, own in ((setting, masked), ("default", whole)):
                        pair = sums.setdefault(f"{setting}: {name}", [0.0, 0.0])
                        pair[0] += own
                        pair[1] += theirs[key, name]
    for name, (own, scoreboard) in sums.items():
        print(f"{name}: {own:.4f} against {scoreboard:.4f}, {own / scoreboard - 1:+.2%}")


def wanted(row: dict[str, Any]) -> bool:
    """Return True for the rows that are checked."""
    names = ("newest_results", "everything")
    return row["data"] == "claude-code" and row["contender"] in names


def stored(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a stored table."""
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return [{**row, "dollars": {"own": row["dollars own"]}} for row in rows]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
