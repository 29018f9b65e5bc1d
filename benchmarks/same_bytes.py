"""Whether two checkouts compress alike: every output of one compared with that of the other.

    python -m benchmarks.same_bytes OLD_CHECKOUT NEW_CHECKOUT [--histories 20000]

The old checkout writes the inputs once: every recorded trajectory below AGORA_DATA, cut at a
stride, and generated histories with fixed seeds. Both checkouts then compress the same inputs, each
in a process of its own, under several settings. What is compared is the SHA-256 of the messages,
the reason and every decision. Exit code 1 where anything differs.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_SHOWN = 10
_SEED = 18
_LONG_STEPS = 40
"""One generated history in ten may be this long; the others are as short as the tests'."""
_MODELS = ("claude-opus-4-8", "gpt-5.2", "deepseek-chat", "gemini-2.5-pro", "an-unknown-model")

Compress = Callable[..., Any]


class Case(NamedTuple):
    """One request, and where it is from."""

    name: str
    messages: Any
    options: dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Compare two checkouts and print what was found; 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--histories", type=int, default=20_000, help="how many are generated")
    parser.add_argument("--stride", type=int, default=6, help="messages between two prefixes")
    parser.add_argument("--data", type=Path, default=os.environ.get("AGORA_DATA"))
    given = parser.parse_args(arguments)
    if given.data is None:
        parser.error("give --data, or set AGORA_DATA to the folder with the recorded trajectories")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.jsonl"
        _run(given.old, "write", inputs, given.data, given.histories, given.stride).communicate()
        outputs = [Path(folder) / name for name in ("old", "new")]
        both = [
            _run(checkout, "compress", inputs, output)
            for checkout, output in zip((given.old, given.new), outputs, strict=True)
        ]
        for worker in both:
            worker.communicate()
            if worker.returncode:
                sys.exit("a worker failed; what it said stands above")
        found = _compare(*outputs)
    print(f"{time.monotonic() - began:,.0f} seconds")
    return found


def _run(checkout: Path, *task: object) -> "subprocess.Popen[bytes]":
    source = checkout.resolve() / "src"
    if not (source / "agora" / "__init__.py").is_file():
        sys.exit(f"{checkout} is no checkout: it has no src/agora")
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
    # -P: this folder has modules of its own called time and tokens.
    command = [sys.executable, "-P", __file__, "--worker", str(source), *map(str, task)]
    return subprocess.Popen(command, env=environment)


def _compare(old: Path, new: Path) -> int:
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    different = total = 0
    with old.open() as olds, new.open() as news:
        for mine, other in zip(olds, news, strict=True):
            total += 1
            name, setting, reason, _, summary = mine.rstrip("\n").split("\t")
            kinds[f"{name.partition('/')[0]}, {setting}"] += 1
            reasons[reason] += 1
            if mine != other:
                different += 1
                if different <= _SHOWN:
                    print(f"DIFFERS {name} under {setting}")
                    print(f"  old: {summary}")
                    print(f"  new: {other.rstrip().rpartition(chr(9))[2]}")
    for kind, count in sorted(kinds.items()):
        print(f"{count:>8,} {kind}")
    print(", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common()))
    print(f"{total:,} outputs compared, {different:,} differ")
    return 1 if different or not total else 0


def _write(inputs: Path, data: Path, histories: int, stride: int) -> None:
    recorded = generated = 0
    with inputs.open("w") as out:
        for case in _recorded(data, stride):
            recorded += 1
            out.write(json.dumps(case) + "\n")
        for case in _generated(histories):
            generated += 1
            out.write(json.dumps(case) + "\n")
    print(f"{recorded:,} prefixes of recorded trajectories, {generated:,} generated histories")


def _recorded(data: Path, stride: int) -> Iterator[Case]:
    from agora.logs import Tally, read_logs

    tally = Tally()
    for number, recording in enumerate(read_logs([data], tally)):
        options = {
            "format": recording.format,
            "system": recording.system,
            "tools": recording.tools,
            "observations": recording.observations,
        }
        size = len(recording.messages)
        # A text has as many characters as a chat of the same length has in a hundred messages.
        step = max(1, size // 12) if isinstance(recording.messages, str) else stride
        for end in (*range(step, size, step), size):
            name = f"recorded/{number}/{recording.id}/{end}"
            yield Case(name.replace("\t", " "), recording.messages[:end], options)
    print(f"{tally.recordings:,} recorded trajectories in {tally.files:,} files")


def _generated(count: int) -> Iterator[Case]:
    from agora.adapters import FORMATS
    from agora.testing import sample

    for place, format in enumerate(FORMATS):
        share = count // len(FORMATS) + (place < count % len(FORMATS))
        long = share // 10
        for steps, many in ((8, share - long), (_LONG_STEPS, long)):
            made = sample(format, many, seed=_SEED + steps, max_steps=steps)
            for number, history in enumerate(made):
                name = f"generated/{format}/{steps}/{number}"
                yield Case(name, history.messages, history.request)


def _settings() -> dict[str, Compress]:
    """Return what is compared, each a way to compress messages: `default` first."""
    import agora
    from agora import Budget, Compressor

    small = Compressor(min_tokens=0)
    found: dict[str, Compress] = {
        "default": _default,
        "every call": Compressor(schedule="every_call").compress,
        "paper": Compressor.paper().compress,
        "never": Compressor(schedule="never").compress,
        "limit": Compressor(schedule="every_call", budget=Budget(limit=600), k_recent=1).compress,
        "features": Compressor(
            scorer=agora.load_scorer("features"), schedule="every_call"
        ).compress,
        "pins": lambda messages, **options: small.compress(messages, pins=(1, 3), **options),
    }
    for model in _MODELS:
        found[f"by price, {model}"] = _for_model(small.compress, model)
    return found


def _default(messages: Any, **options: Any) -> Any:
    import agora

    # The function has no `thinking`; what a history says of it is detected.
    options.pop("thinking", None)
    return agora.compress(messages, model="claude-opus-4-8", **options)


def _for_model(compress: Compress, model: str) -> Compress:
    return lambda messages, **options: compress(messages, model=model, **options)


def _compress(inputs: Path, output: Path) -> None:
    settings = _settings()
    others = [name for name in settings if name != "default"]
    with inputs.open() as cases, output.open("w") as out:
        for number, line in enumerate(cases):
            name, messages, options = json.loads(line)
            # Each under the default, and under two others in turn.
            turn = number * 2
            names = ("default", *(others[(turn + k) % len(others)] for k in range(2)))
            for setting in names:
                found = settings[setting](messages, **options)
                said = found.summary().replace("\t", " ").replace("\n", " ")
                row = (name, setting, str(found.reason), digest(found), said)
                out.write("\t".join(row).encode("utf-8", "replace").decode() + "\n")


def digest(compression: Any) -> str:
    """Return the SHA-256 of what was sent, why, and what became of each step."""
    decisions = [
        (d.number, d.outcome, d.reason, d.tokens, d.score, _text(d)) for d in compression.decisions
    ]
    account = (
        compression.messages,
        str(compression.reason),
        int(compression.rung),
        compression.tokens_before,
        compression.tokens_after,
        compression.format,
        compression.epoch,
        compression.detail,
        list(compression.positions),
        decisions,
    )
    return hashlib.sha256(json.dumps(account).encode()).hexdigest()


def _text(decision: Any) -> str:
    """Return what stands for a step, as its marker or its note says it."""
    line = getattr(decision, "skeleton", None)
    if line is None:
        return str(decision.text)
    # Until 0.2 a decision had the whole line, of which a note writes what comes after the arrow.
    if decision.form != "action":
        return str(line)
    return str(line).rpartition(" -> ")[2] if " -> " in line else ""


def _worker(source: str, task: str, *rest: str) -> None:
    import agora

    if not str(Path(agora.__file__).resolve()).startswith(source):
        sys.exit(f"{agora.__file__} was imported instead of what is in {source}")
    if task == "write":
        _write(Path(rest[0]), Path(rest[1]), int(rest[2]), int(rest[3]))
    else:
        _compress(Path(rest[0]), Path(rest[1]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _worker(*sys.argv[2:])
    else:
        sys.exit(main())
