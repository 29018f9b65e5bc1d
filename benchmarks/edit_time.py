"""Measure the CPU time of an edit and of a known call, against reading the same body's JSON.

    python -m benchmarks.edit_time --out times.json

The conversations are made up: tool results of JSON records, of code and of prose, by a seed, about
400 tokens a step. For 10,000, 50,000 and 150,000 tokens it measures the median CPU milliseconds of

- *edit*: an edit of a conversation whose texts this process has never seen;
- *first call*: a call by gpt-5's prices with such a conversation, in a session;
- *known call*: the next call of that session, with one step more;
- *stateless*: the same without a session.

Each try also times `json.loads` of the request body; the ratio to it is what to compare between
machines. Only the public interface is used, so the program measures any version.
"""

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agora

SIZES = (10_000, 50_000, 150_000)
MODEL = "gpt-5"
STEP_CHARACTERS = 1_500
STEP_TOKENS = 407
EDIT = agora.Compressor(edits="every_call")
BY_PRICE = agora.Compressor()
WORDS = (
    "account batch booking cache column commit config customer deploy export field flight gateway "
    "handler invoice ledger limit module order parser policy quota record refund result schema "
    "server signal status stream table ticket token trace value worker is was not found in for"
).split()
Message = dict[str, Any]


def conversation(tokens: int, chance: random.Random) -> list[Message]:
    """Return a chat with tool calls of about so many tokens."""
    messages: list[Message] = [
        {"role": "system", "content": "You keep a booking system running."},
        {"role": "user", "content": f"Find out why order {name(chance)} fails, and repair it."},
    ]
    for number in range(tokens // STEP_TOKENS):
        messages += one_step(number, chance)
    return messages


def one_step(number: int, chance: random.Random) -> list[Message]:
    """Return a call and its result."""
    make = chance.choice((records, code, prose))
    arguments = json.dumps({"path": f"src/{name(chance)}.py", "limit": chance.randrange(100)})
    function = {"name": chance.choice(("read_file", "search", "query")), "arguments": arguments}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": make(chance)},
    ]


def name(chance: random.Random) -> str:
    """Return something that looks like a symbol."""
    return f"{chance.choice(WORDS)}_{chance.choice(WORDS)}_{chance.randrange(10**6)}"


def records(chance: random.Random) -> str:
    """Return a list of records as JSON."""
    rows = [
        {"id": name(chance), "price": chance.randrange(9_999) / 100, "status": chance.choice(WORDS)}
        for _ in range(STEP_CHARACTERS // 75)
    ]
    return json.dumps(rows)


def code(chance: random.Random) -> str:
    """Return lines that look like Python."""
    lines = [
        f"    {name(chance)} = {chance.choice(WORDS)}({name(chance)}, {chance.randrange(100)})"
        for _ in range(STEP_CHARACTERS // 65)
    ]
    return "\n".join(lines)


def prose(chance: random.Random) -> str:
    """Return words, some of them names."""
    words = chance.choices(WORDS, k=STEP_CHARACTERS // 8)
    words[::12] = [name(chance) for _ in words[::12]]
    return " ".join(words)


def milliseconds(action: Callable[[], object]) -> float:
    """Return the CPU milliseconds of an action in this process."""
    begun = time.process_time()
    action()
    return (time.process_time() - begun) * 1e3


def one_try(tokens: int, seed: int) -> dict[str, float]:
    """Return the milliseconds of each measure, on conversations of their own."""
    edited = conversation(tokens, random.Random(f"edit {tokens} {seed}"))
    priced = conversation(tokens, random.Random(f"priced {tokens} {seed}"))
    body = json.dumps({"model": MODEL, "messages": priced})
    more = [*priced, *one_step(len(priced), random.Random(f"more {tokens} {seed}"))]
    session = agora.Session(BY_PRICE)
    first = milliseconds(lambda: session.answered(session.compress(priced, model=MODEL)))
    # A client sends its history as new objects.
    more = json.loads(json.dumps(more))
    return {
        "edit": milliseconds(lambda: EDIT.compress(edited)),
        "first call": first,
        "known call": milliseconds(lambda: session.compress(more, model=MODEL)),
        "stateless": milliseconds(lambda: BY_PRICE.compress(more, model=MODEL)),
        "json.loads": milliseconds(lambda: json.loads(body)),
    }


def measured(tokens: int, tries: int) -> dict[str, Any]:
    """Return medians and quartiles of each measure, and the ratio of its median to `json.loads`."""
    rows = [one_try(tokens, seed) for seed in range(tries)]
    found: dict[str, Any] = {"tokens": tokens, "tries": tries}
    bare = statistics.median(row["json.loads"] for row in rows)
    for measure in rows[0]:
        low, middle, high = statistics.quantiles([row[measure] for row in rows], n=4)
        found[measure] = {
            "p50_ms": round(middle, 3),
            "quartiles_ms": [round(low, 3), round(high, 3)],
            "ratio_to_json": round(middle / bare, 1),
        }
    return found


def main() -> None:
    """Print and write the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--tries", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    # The first edit loads what is loaded once.
    one_try(2_000, -1)
    rows = []
    for tokens in options.sizes:
        row = measured(tokens, options.tries)
        rows.append(row)
        for measure, figures in row.items():
            if isinstance(figures, dict):
                print(
                    f"{tokens:>8,} {measure:>11} {figures['p50_ms']:>9.2f} ms "
                    f"{figures['ratio_to_json']:>7.1f} x json.loads",
                    flush=True,
                )
    found = {
        "version": agora.__version__,
        "python": platform.python_version(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "cores": os.cpu_count(),
        "rows": rows,
    }
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
