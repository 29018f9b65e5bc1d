"""Recomputes two contenders of the scoreboard on Claude Code sessions, apart from its code.

python -m lab.harness.scoreboard_check ROWS prints the sums of both. Only the reader of logs, the
token estimate and the list prices are the scoreboard's; all else is written again.
"""

import hashlib
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from agora import EstimatedTokens, sheet_for
from agora.logs import Recording, Tally, read_logs
from agora_lab.envs.data import cache_folder

COUNT = EstimatedTokens().count
N = "newest_results"
CHECKED = {("everything", "default"): None, (N, "N=10"): 10, (N, "N=5"): 5}
MASK_TOKENS = 4 + COUNT("[old tool result left out]")


def pieces_of(recording: Recording) -> tuple[list[tuple[bool, int]], list[int]]:
    """Return for each piece if it is a result, and its tokens; then how many each call sent."""
    pieces: list[tuple[bool, int]] = []
    starts: list[int] = []
    for message in recording.messages:
        starts.append(len(pieces))
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        if message["role"] == "assistant":
            pieces.append((False, answer_tokens(blocks)))
            continue
        for block in blocks:
            result = block["type"] == "tool_result"
            size = COUNT(text_of(block.get("content") if result else [block]))
            pieces.append((result, 4 + size))
    starts.append(len(pieces))
    return pieces, [starts[at] for at in recording.calls]


def answer_tokens(blocks: list[dict[str, Any]]) -> int:
    """Return the estimated tokens of an answer: text, calls and thinking."""
    tokens = 4 + COUNT("\n".join(b["text"] for b in blocks if b["type"] == "text"))
    for block in blocks:
        if block["type"] == "tool_use":
            call = {"arguments": json.dumps(block["input"], ensure_ascii=False)}
            tokens += COUNT(str({"name": block["name"], **call}))
        elif block["type"] == "thinking":
            tokens += COUNT(block["thinking"])
    return tokens


def text_of(content: Any) -> str:
    """Return the text of a result, or of what the user said."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(b.get("text", "") if b["type"] == "text" else "[image]" for b in content)


def calibrated(
    sizes: list[int], calls: list[int], billed: list[int]
) -> tuple[float, float, list[float]]:
    """Return the tokens before the first message, the scale, and the provider's size of pieces."""
    sums = [sum(sizes[:call]) for call in calls]
    growth = sorted(
        ((b2 - b1) / (s2 - s1), s2 - s1)
        for (b1, b2), (s1, s2) in zip(pairwise(billed), pairwise(sums), strict=True)
        if s2 > s1
    )
    half, scale = sum(weight for _, weight in growth) / 2, 1.0
    for ratio, weight in growth:
        half -= weight
        if half <= 0:
            scale = min(2.0, max(0.7, ratio))
            break
    before = billed[0] - scale * sums[0]
    if before < 0:
        before, scale = 0.0, sum(billed) / sum(sums)
    tokens = [size * scale for size in sizes]
    owed = 0.0
    for at, answer in enumerate(calls[:-1], start=1):
        owed += (billed[at] - billed[at - 1]) - scale * (sums[at] - sums[at - 1])
        extra = max(owed, -tokens[answer])
        tokens[answer] += extra
        owed -= extra
    return before, scale, tokens


def bill(recording: Recording, keep: int | None) -> float:
    """Return the input bill of everything, or with all but the newest `keep` results masked."""
    pieces, calls = pieces_of(recording)
    usage, sizes = recording.usage, [size for _, size in pieces]
    before, scale, tokens = calibrated(sizes, calls, [one.prompt for one in usage])
    sheet = sheet_for(recording.model or "").for_ttl(recording.ttl)
    dollars = cached = 0.0
    masked: set[int] = set()
    for number, call in enumerate(calls):
        shown = [at for at in range(call) if pieces[at][0] and at not in masked]
        if keep and len(shown) >= 2 * keep:
            masked.update(shown[:-keep])
            cached = min(cached, before)
        shown_now = [MASK_TOKENS * scale if at in masked else tokens[at] for at in range(call)]
        then = usage[number - 1]
        if not number or usage[number].read < 0.9 * (then.read + then.written):
            cached = held(usage[number].read, before, shown_now)
        size = before + sum(shown_now)
        tokens_paid = cached * sheet.read + (size - cached) * sheet.write
        dollars += tokens_paid * sheet.input * sheet.tier(size).input / 1e6
        cached = size
    return dollars


def held(read: int, before: float, sizes: list[float]) -> float:
    """Return what a cache still holds that lost the rest: whole pieces, from the beginning."""
    size = min(float(read), before)
    for piece in sizes:
        if read < before or size + piece > read * 1.01:
            break
        size += piece
    return size


def main(path: Path) -> None:
    """Print the sums of both bills, and how far apart they are."""
    stored = path.suffix == ".parquet"
    rows = pq.read_table(path).to_pylist() if stored else map(json.loads, path.open())
    theirs = {
        (row["session"], row["contender"], row["setting"]): row["dollars"]["own"] for row in rows
    }
    sums = {name: [0.0, 0.0] for name in CHECKED}
    tally = Tally()
    for file in sorted(cache_folder("sessions").rglob("*.jsonl")):
        for recording in read_logs([file], tally):
            key = hashlib.blake2b(recording.id.encode(), digest_size=6).hexdigest()
            for name, keep in CHECKED.items():
                if (key, *name) in theirs:
                    sums[name][0] += bill(recording, keep)
                    sums[name][1] += theirs[key, *name]
    for cell, (own, board) in sums.items():
        print(f"{', '.join(cell)}: {own:.4f} against {board:.4f}, {own / board - 1:+.2%}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
