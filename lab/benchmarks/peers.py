"""What released peers make of the same long tool-calling conversations: bill, legality, prefix.

Conversations are made up, of real text: an agent reads files of Python's standard library, looks
for names in them and runs tests. Each call of each conversation is shortened by each method from
the whole history, as an agent with a stateless hook does, and billed by the simulator of the
provider's cache. Peers run from their released packages, in environments of their own.

    python -m lab.benchmarks.peers --out lab/results/peers.json
"""

import argparse
import json
import random
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import agora
from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.prices import PriceSheet, sheet_for
from agora.core.tokens import EstimatedTokens
from agora_lab.methods import headroom, langchain_clear, litellm_compress
from agora_lab.methods.isolated import Isolated

Messages = list[dict[str, Any]]
Shorten = Callable[[Messages], Messages]

SHEETS = ("gpt-4o", "gpt-5", "claude-sonnet-5", "deepseek-v4-flash", "self-hosted")
LOWER = 24_000
"""A trigger that these conversations reach early, for peers whose own is far above them."""
SYSTEM = "You repair Python projects. Read before you write, and change little. "
TASK = "Some tests fail since the last release. Find out which change did it, and repair it."
_COUNT = EstimatedTokens()


def library() -> list[Path]:
    """Return the files that the agent reads: modules of the standard library, by name."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    return sorted(path for path in folder.glob("*.py") if path.stat().st_size > 8_000)


def conversation(seed: int, steps: int) -> Messages:
    """Return a conversation: a preamble of about 4,000 tokens, steps of 150 + Exp(1,200)."""
    rng = random.Random(f"peers-{seed}")
    files = library()
    messages: Messages = [
        {"role": "system", "content": SYSTEM + _lines(files[seed], 0, 14_000)},
        {"role": "user", "content": TASK},
    ]
    for number in range(steps):
        name, arguments, result = _step(rng, files, 4 * (150 + int(rng.expovariate(1 / 1200))))
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        # Said in words as well: LiteLLM's function fails on a call without any.
        said = f"Next: {name} {' '.join(map(str, arguments.values()))}."
        messages += [
            {"role": "assistant", "content": said, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
        ]
    return messages


def _step(rng: random.Random, files: list[Path], size: int) -> tuple[str, dict[str, Any], str]:
    path = rng.choice(files)
    start = rng.randrange(max(1, path.stat().st_size - size))
    text = _lines(path, start, size)
    match rng.randrange(4):
        case 0:
            word = rng.choice([word for word in text.split() if word.isidentifier()] or ["self"])
            found: list[dict[str, Any]] = []
            for at, line in enumerate(text.splitlines()):
                found.append({"path": path.name, "line": start + at, "text": line})
                if len(json.dumps(found)) > size:
                    break
            return "search", {"name": word}, json.dumps(found)
        case 1:
            log = "\n".join(
                f"{path.stem}::test_{at} {rng.choices(('ok', 'FAILED'), (19, 1))[0]}  {line}"
                for at, line in enumerate(text.splitlines())
            )
            return "run_tests", {"module": path.stem}, log[:size]
        case _:
            return "read_file", {"path": path.name, "from": start}, text


@lru_cache(maxsize=512)
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _lines(path: Path, start: int, size: int) -> str:
    return _text(path)[start : start + size]


# Methods


def everything(messages: Messages) -> Messages:
    """Return the messages as they are."""
    return messages


def newest(messages: Messages) -> Messages:
    """Return the preamble and the newest whole steps that fit in `LOWER` tokens."""
    room = LOWER - sum(_tokens(_key(message)) for message in messages[:2])
    kept: Messages = []
    for at in range(len(messages) - 2, 1, -2):
        step = messages[at : at + 2]
        room -= sum(_tokens(_key(message)) for message in step)
        if room < 0 and kept:
            break
        kept = step + kept
    return messages[:2] + kept


def by_price(sheet: str) -> Shorten:
    """Return AGORA as `agora.compress` has it, going by the prices of a model."""
    return lambda messages: list(agora.compress(messages, model=sheet).messages)


def every_call(messages: Messages) -> Messages:
    """Return what AGORA makes of the messages when it edits at every call."""
    return list(_EVERY.compress(messages).messages)


_EVERY = agora.Compressor(edits="every_call")


def langchain(**options: Any) -> Shorten:
    """Return LangChain's edit. Instructions are kept apart by it, as its middleware does."""
    peer = Isolated(langchain_clear.PEER)

    def shorten(messages: Messages) -> Messages:
        contents = peer.ask({"messages": messages[1:], "options": options})["contents"]
        return messages[:1] + [
            {**message, "content": content}
            for message, content in zip(messages[1:], contents, strict=True)
        ]

    return shorten


def litellm(**options: Any) -> Shorten:
    """Return LiteLLM's function, without the tool that it adds to get messages back."""
    peer = Isolated(litellm_compress.PEER, {"model": "gpt-4o"})
    return lambda messages: list(peer.ask({"messages": messages, "options": options})["messages"])


def headroom_library() -> Shorten:
    """Return Headroom's function, without its proxy and without its model for plain text."""
    peer = Isolated(headroom.PEER, {"model": "gpt-4o"})

    def shorten(messages: Messages) -> Messages:
        contents = peer.ask({"messages": messages, "options": {}})["contents"]
        return [
            {**message, "content": content}
            for message, content in zip(messages, contents, strict=True)
        ]

    return shorten


def methods() -> Iterator[tuple[str, dict[str, Shorten] | Shorten]]:
    """Yield each method by name; AGORA by price is another for each sheet."""
    yield "everything", everything
    yield "agora", {sheet: by_price(sheet) for sheet in SHEETS}
    yield "agora_every_call", every_call
    yield f"newest_{LOWER}", newest
    yield "langchain_defaults", langchain()
    yield f"langchain_{LOWER}", langchain(trigger=LOWER)
    yield "headroom_library", headroom_library()
    yield "litellm_defaults", litellm()
    yield (
        f"litellm_{LOWER}",
        litellm(compression_trigger=LOWER, compression_target=LOWER // 2),
    )


# What comes of it


def _key(message: dict[str, Any]) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False)


@lru_cache(maxsize=1 << 16)
def _tokens(key: str) -> int:
    return 4 + _COUNT.count(key)


def cost(prompts: Sequence[Sequence[str]], sheet: PriceSheet) -> float:
    """Return what prompts cost, in tokens at the price of uncached input."""
    cache = PrefixCache(sheet)
    total = 0.0
    for prompt in prompts:
        last = len(prompt) - 1
        marks = {0, last} if sheet.breakpoints else set[int]()
        bill = cache.send(
            [Segment(key, _tokens(key), at in marks) for at, key in enumerate(prompt)]
        )
        total += bill.uncached + bill.read * sheet.read + bill.written * sheet.write
    return total


def played(shorten: Shorten, messages: Messages) -> dict[str, Any]:
    """Return the prompts of all calls of a conversation, and what can be said of them."""
    prompts: list[list[str]] = []
    illegal = lost = broken = 0
    started = time.process_time()
    for end in range(2, len(messages) + 1, 2):
        history = messages[:end]
        made = shorten(history)
        prompts.append([_key(message) for message in made])
        illegal += bool(agora.validate(made, format="openai"))
        # A marker may stand behind them; every word of theirs has to be there.
        lost += not all(
            str(now["content"]).startswith(str(was["content"]))
            for was, now in zip(history[:2], made, strict=False)
        )
        if len(prompts) > 1:
            before = prompts[-2]
            broken += prompts[-1][: len(before)] != before
    return {
        "prompts": prompts,
        "calls": len(prompts),
        "illegal": illegal,
        "instructions_lost": lost,
        "prefix_broken": broken,
        "largest": max(sum(map(_tokens, prompt)) for prompt in prompts),
        "tokens": sum(sum(map(_tokens, prompt)) for prompt in prompts),
        "seconds": time.process_time() - started,
    }


def measure(conversations: int, steps: int) -> dict[str, Any]:
    """Return the figures of every method: ratios to sending everything, by conversation."""
    histories = [conversation(seed, steps) for seed in range(conversations)]
    sheets = {name: sheet_for(name) for name in SHEETS}
    whole: list[dict[str, Any]] = []
    rows: dict[str, Any] = {}
    for name, shorten in methods():
        row: dict[str, dict[str, list[float]]] = {
            figure: {sheet: [] for sheet in SHEETS}
            for figure in ("bill", "tokens_sent", "prefix_broken", "largest_prompt")
        }
        sums = dict.fromkeys(("calls", "illegal", "instructions_lost"), 0)
        for at, history in enumerate(histories):
            each = shorten if isinstance(shorten, dict) else dict.fromkeys(SHEETS, shorten)
            runs: dict[int, dict[str, Any]] = {}
            for sheet, one in each.items():
                run = runs.setdefault(id(one), {}) or played(one, history)
                runs[id(one)] = run
                run.setdefault("cost", {})[sheet] = cost(run["prompts"], sheets[sheet])
            if name == "everything":
                whole.append(runs[id(everything)])
            for run in runs.values():
                for sheet, dollars in run["cost"].items():
                    row["bill"][sheet].append(dollars / whole[at]["cost"][sheet])
                    row["tokens_sent"][sheet].append(run["tokens"] / whole[at]["tokens"])
                    row["prefix_broken"][sheet].append(run["prefix_broken"] / (run["calls"] - 1))
                    row["largest_prompt"][sheet].append(run["largest"])
                for key in sums:
                    sums[key] += run[key]
                del run["prompts"]
        rows[name] = {**sums, **row}
        _say(f"{name:22} {_line(rows[name])}")
    return {
        "conversations": conversations,
        "steps": steps,
        "tokens": [run["largest"] for run in whole],
        "versions": {
            "langchain": langchain_clear.PEER.packages[0],
            "litellm": litellm_compress.PEER.packages[0],
            "headroom": headroom.PEER.packages[0],
        },
        "methods": rows,
    }


def _line(row: dict[str, Any]) -> str:
    bills = ", ".join(
        f"{sheet} {statistics.mean(row['bill'][sheet]):.2f} (worst {max(row['bill'][sheet]):.2f}; "
        f"prefix broken {statistics.mean(row['prefix_broken'][sheet]):.2f})"
        for sheet in SHEETS
    )
    return f"illegal {row['illegal']} of {row['calls']}, {bills}"


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    """Print a line per method, and write all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=3)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    figures = measure(given.conversations, given.steps)
    for row in figures["methods"].values():
        for figure, by_sheet in row.items():
            if isinstance(by_sheet, dict):
                row[figure] = {k: [round(v, 4) for v in each] for k, each in by_sheet.items()}
    figures["python"] = sys.version.split()[0]
    if given.out:
        given.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
