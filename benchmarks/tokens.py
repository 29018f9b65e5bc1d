"""How the constants of `agora.core.tokens` were fitted, and how far off they are.

    python benchmarks/tokens.py report              errors per kind of text and tokenizer
    python benchmarks/tokens.py speed               bytes per second, and what a short text costs
    python benchmarks/tokens.py samples FOLDER      count FOLDER/*.txt into the tests' sample file
    python benchmarks/tokens.py fit FOLDER          fit again; FOLDER/<kind>/*.txt are the texts

The tokenizers come out of packages that carry them: litellm (o200k_base, cl100k_base and an
older Anthropic one) and mistral-common (tekken). What is missing is left out of the table.
Recorded trajectories are read from the folder that AGORA_DATA names.
"""

import argparse
import importlib.util
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agora.core import tokens

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "core" / "samples_tokens.json"
DATA = Path(os.environ.get("AGORA_DATA", ROOT.parent / "shared" / "data"))

Count = Callable[[str], int]


def _folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _tiktoken(name: str) -> Count:
    import tiktoken

    encoding = tiktoken.get_encoding(name)
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def tokenizers() -> dict[str, Count]:
    """Return every reference tokenizer that this environment has, by name."""
    found: dict[str, Count] = {}
    litellm = _folder("litellm")
    if litellm is not None:
        # Found without importing litellm, which asks the network for prices when it loads.
        cached = litellm / "litellm_core_utils" / "tokenizers"
        os.environ["TIKTOKEN_CACHE_DIR"] = str(cached)
        for name in ("o200k_base", "cl100k_base"):
            found[name.removesuffix("_base")] = _tiktoken(name)
    mistral = _folder("mistral_common")
    if mistral is not None:
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        tekken = Tekkenizer.from_file(str(mistral / "data" / "tekken_240911.json"))
        found["tekken"] = lambda text: len(tekken.encode(text, bos=False, eos=False))
    if litellm is not None and _folder("tokenizers") is not None:
        from tokenizers import Tokenizer

        anthropic = Tokenizer.from_file(str(cached / "anthropic_tokenizer.json"))
        found["anthropic"] = lambda text: len(anthropic.encode(text).ids)
    return found


# Texts


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def trajectories() -> dict[str, list[str]]:
    """Return one text per recorded trajectory, all its strings joined, by data set."""
    sets: dict[str, list[Any]] = {}
    if (DATA / "tau-bench").is_dir():
        sets["tau-bench"] = [
            run["traj"] for run in _read(DATA / "tau-bench" / "gpt-4o-airline.json")
        ]
    if (DATA / "agentrx").is_dir():
        sets["agentrx"] = list(_read(DATA / "agentrx" / "tau_dataset_full.json"))
    if (DATA / "swe-agent").is_dir():
        sets["swe-agent"] = [
            _read(path)["history"] for path in sorted((DATA / "swe-agent").glob("*.traj"))
        ]
    if (DATA / "trail").is_dir():
        sets["trail"] = [_read(path) for path in sorted((DATA / "trail").glob("*.json"))[::4]]
    if (DATA / "intercode").is_dir():
        for path in sorted((DATA / "intercode").glob("ic_bash*_1.json")):
            logs = _read(path)
            sets["intercode"] = list(logs.values() if isinstance(logs, dict) else logs)
    return {name: ["\n".join(_strings(run)) for run in runs] for name, runs in sets.items()}


def folder_texts(folder: Path) -> dict[str, list[str]]:
    """Return the texts of FOLDER/<kind>/*.txt by kind."""
    return {
        kind.name: [path.read_bytes().decode() for path in sorted(kind.glob("*.txt"))]
        for kind in sorted(folder.iterdir())
        if kind.is_dir()
    }


# Report


def report(folder: Path | None) -> None:
    """Print relative errors: own samples one by one, trajectories as mean and worst."""
    counts = tokenizers()
    counter = tokens.EstimatedTokens()
    print(f"{'sample':<14}{'chars':>7}{'estimate':>9}" + "".join(f"{n:>11}" for n in counts))
    for kind, sample in _read(SAMPLES).items():
        text = sample["text"]
        guess = counter.count(text)
        errors = "".join(f"{guess / count(text) - 1:>+11.1%}" for count in counts.values())
        print(f"{kind:<14}{len(text):>7}{guess:>9}{errors}")
    groups = trajectories() | (folder_texts(folder) if folder else {})
    print(f"\n{'mean (worst)':<14}{'texts':>7}{'chars':>10}" + "".join(f"{n:>18}" for n in counts))
    for name, texts in groups.items():
        cells = ""
        for count in counts.values():
            off = [counter.count(text) / count(text) - 1 for text in texts if text]
            cells += f"{np.mean(off):>+9.1%} ({max(off, key=abs):+.0%})".rjust(18)
        print(f"{name:<14}{len(texts):>7}{sum(map(len, texts)):>10}{cells}")


def speed() -> None:
    """Print how fast the estimate is, compared with `json.loads` of the same text."""
    counter = tokens.EstimatedTokens()
    samples = _read(SAMPLES)

    def best(call: Callable[[str], object], text: str, times: int) -> float:
        def once() -> float:
            # Processor time: the figure must not depend on who else uses the machine.
            start = time.process_time()
            for _ in range(times):
                call(text)
            return (time.process_time() - start) / times

        return min(once() for _ in range(7))

    for kind in ("english", "python", "json_pretty", "base64", "chinese", "russian", "emoji"):
        text = samples[kind]["text"]
        long = text * (8 * 2**20 // len(text.encode()))
        size = len(long.encode()) / 1e6
        body = json.dumps(long, ensure_ascii=False)
        rate = size / best(counter.count, long, 1)
        load = size / best(json.loads, body, 1)
        print(f"{kind:<14}{size:6.1f} MB{rate:8.0f} MB/s   json.loads {load:6.0f} MB/s")
    for text in ("", "ok", "ls -la src/agora", "x" * 200, samples["english"]["text"]):
        spent = best(counter.count, text, 20_000)
        print(f"{len(text):>6} characters {spent * 1e9:8.0f} ns")


def write_samples(folder: Path) -> None:
    """Count FOLDER/*.txt with the reference tokenizers and freeze them for the tests."""
    counts = {name: count for name, count in tokenizers().items() if name != "anthropic"}
    samples = {
        path.stem: {"text": path.read_text(encoding="utf-8")}
        | {name: count(path.read_text(encoding="utf-8")) for name, count in counts.items()}
        for path in sorted(folder.glob("*.txt"))
    }
    SAMPLES.write_text(json.dumps(samples, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# Fit

CLASSES = {
    "space": bytes(range(33)),
    "newline": b"\n\r",
    "lower": b"abcdefghijklmnopqrstuvwxyz",
    "upper": b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "digit": b"0123456789",
    "punctuation": b"!#$%&)*+,:;=>?@\\]^|}~\x7f",
    "quote": b"\"'`",
    "underscore": b"_",
    "bracket": b"([{<",
    "joint": b"./-",
    "foreign": bytes(range(0x80, 0x100)),
}
SCRIPTS = {
    "signs": b"\xc2",
    "latin": b"\xc3",
    "latin-extended": bytes(range(0xC4, 0xCC)),
    "combining": b"\xcc\xcd",
    "greek": b"\xce\xcf",
    "cyrillic": bytes(range(0xD0, 0xD4)),
    "hebrew": bytes(range(0xD4, 0xD8)),
    "arabic": bytes(range(0xD8, 0xE0)),
    "indic": b"\xe0",
    "e1": b"\xe1",
    "symbols": b"\xe2",
    "kana": b"\xe3",
    "han": bytes(range(0xE4, 0xEA)),
    "hangul": bytes(range(0xEA, 0xEE)),
    "fullwidth": b"\xee\xef",
    "astral": bytes(range(0xF0, 0x100)),
}
REQUIRED = {"english", "python", "javascript", "c", "json-compact", "json-pretty", "html", "log"}
REQUIRED |= {"markdown", "chinese", "japanese", "emoji", "tau-traj", "swe-obs"}
K = len(CLASSES)


@dataclass(frozen=True, slots=True)
class Table:
    """The texts as numbers: class steps, class counts, lead bytes, sizes and true counts."""

    steps: np.ndarray
    classes: np.ndarray
    scripts: np.ndarray
    size: np.ndarray
    true: np.ndarray
    kind: np.ndarray
    weight: np.ndarray
    train: np.ndarray
    kinds: list[str]


def tabulate(groups: dict[str, list[str]], count: Count) -> Table:
    """Return the features of every text; every fourth text of a kind is held out."""
    lookup = np.zeros(256, int)
    for place, members in enumerate(CLASSES.values()):
        lookup[list(members)] = place
    kinds = sorted(groups)
    rows: list[tuple[Any, ...]] = []
    for kind in kinds:
        texts = groups[kind]
        for place, text in enumerate(texts):
            raw = np.frombuffer(text.encode(), np.uint8)
            path = np.concatenate([[0], lookup[raw], [0]])
            steps = np.bincount(path[:-1] * K + path[1:], minlength=K * K).reshape(K, K)
            seen = np.bincount(raw, minlength=256)
            rows.append(
                (
                    steps + steps.T,
                    np.bincount(lookup[raw], minlength=K),
                    [seen[list(leads)].sum() for leads in SCRIPTS.values()],
                    len(raw),
                    count(text),
                    kinds.index(kind),
                    (1.0 if kind in REQUIRED else 0.5) / len(texts),
                    place % 4 != 3,
                )
            )
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    steps, classes, scripts, size, true = (column.astype(float) for column in columns[:5])
    kind_of, weight, train = columns[5:]
    return Table(steps, classes, scripts, size, true, kind_of, weight, train, kinds)


def _solve(features: np.ndarray, table: Table, rows: np.ndarray) -> tuple[float, np.ndarray]:
    scale = np.sqrt(np.where(rows, table.weight, 0.0)) / table.true
    left = features * scale[:, None]
    right = table.true * scale
    gram = left.T @ left
    answer = np.linalg.solve(gram + 1e-9 * np.eye(len(gram)), left.T @ right)
    off = features @ answer / table.true - 1
    weight = np.where(rows, table.weight, 0.0)
    bias = np.bincount(table.kind, weights=weight * off)
    return float((weight * off**2).sum() + (bias**2).sum()), answer


def _features(table: Table, codes: np.ndarray) -> np.ndarray:
    """Return bits and bytes: one bit of a code is the byte's own, the others count if they change.

    The bit that is a byte's own is the first column of `codes`, its highest bit.
    """
    distance = (codes[:, None, 1:] != codes[None, :, 1:]).sum(2)
    changes = np.tensordot(table.steps, distance, 2) / 2
    return np.stack([changes + table.classes @ codes[:, 0], table.size], 1)


def fit_codes(table: Table, seed: int, rounds: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Search the eight-bit codes of the ASCII classes by annealing, coefficients by least squares.

    A space is 0, so that the edge of a text counts as a space.
    """
    ascii_only = table.scripts.sum(1) == 0
    rows = table.train & ascii_only
    table = replace(
        table,
        **{name: getattr(table, name)[rows] for name in Table.__slots__ if name != "kinds"},
    )
    everything = np.ones(len(table.true), bool)
    rng = random.Random(seed)

    def loss_of(codes: np.ndarray) -> tuple[float, np.ndarray]:
        loss, answer = _solve(_features(table, codes), table, everything)
        # A byte more must never cost less: then, distances being distances, no text is
        # cheaper than a part of it.
        return (loss if answer[0] > 0.02 and answer[1] > 0.01 else 99.0), answer

    codes = np.array([[0] * 8] + [[rng.randrange(2) for _ in range(8)] for _ in range(K - 1)])
    current, answer = loss_of(codes)
    best = (current, codes, answer)
    for turn in range(rounds):
        heat = 0.03 * current * (1 - turn / rounds) ** 2 + 1e-9
        trial = codes.copy()
        place = rng.randrange(1, K - 1)
        for bit in rng.sample(range(8), rng.choice((1, 1, 2))):
            trial[place, bit] ^= 1
        loss, answer = loss_of(trial)
        if loss < current or rng.random() < math.exp((current - loss) / heat):
            codes, current = trial, loss
            if loss < best[0]:
                best = (loss, trial, answer)
    return best


def fit_scripts(
    table: Table, codes: np.ndarray, answer: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Try all 256 codes for bytes outside ASCII; fit what each script's character adds."""
    found: tuple[float, np.ndarray, np.ndarray] | None = None
    rows = table.train & (table.scripts.sum(1) > 0)
    for code in range(256):
        trial = codes.copy()
        trial[-1] = [code >> bit & 1 for bit in range(8)]
        base = _features(table, trial) @ answer
        scale = np.sqrt(np.where(rows, table.weight, 0.0)) / table.true
        left = table.scripts * scale[:, None]
        gram, aim = left.T @ left, left.T @ ((table.true - base) * scale)
        # A script without texts keeps one token a character.
        gram += 1e-5 * np.eye(len(gram))
        aim += 1e-5
        weights = np.zeros(len(gram))
        for _ in range(300):
            for j in range(len(weights)):
                change = (aim[j] - gram[j] @ weights) / gram[j, j]
                # Below a quarter, scripts that share a lead byte with the fitted one get lost.
                weights[j] = min(63 / 32, max(8 / 32, weights[j] + change))
        off = (base + table.scripts @ weights) / table.true - 1
        loss = float((np.where(rows, table.weight, 0.0) * off**2).sum())
        if found is None or loss < found[0]:
            found = (loss, trial, weights)
    assert found is not None
    return found[1], found[2]


def fit(folder: Path, seeds: int, rounds: int) -> None:
    """Print the constants for `agora.core.tokens` and their errors, fitted and held out."""
    table = tabulate(folder_texts(folder), tokenizers()["o200k"])
    _, codes, answer = min(
        (fit_codes(table, seed, rounds) for seed in range(seeds)), key=lambda result: result[0]
    )
    codes, weights = fit_scripts(table, codes, answer)
    answer = np.round(answer * 1024) / 1024
    weights = np.round(weights * 32) / 32
    for name, code in zip(CLASSES, codes, strict=True):
        print(f"{name:<14}0b{''.join(map(str, code))}")
    print("bit, byte, in 1/1024:", (answer * 1024).astype(int))
    for name, weight in zip(SCRIPTS, weights, strict=True):
        print(f"{name:<16}{int(weight * 32):>4} / 32")
    off = (_features(table, codes) @ answer + table.scripts @ weights) / table.true - 1
    print(f"{'kind':<16}{'fitted':>16}{'held out':>16}   mean and root mean square error")
    for place, kind in enumerate(table.kinds):
        cells = ""
        for rows in (table.train, ~table.train):
            part = off[rows & (table.kind == place)]
            cells += f"{part.mean():+8.1%} {np.sqrt((part**2).mean()):6.1%} " if len(part) else ""
        print(f"{kind:<16}{cells}")


def main() -> None:
    """Run the command named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", choices=["report", "speed", "samples", "fit"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=25_000)
    options = parser.parse_args()
    if options.command == "report":
        report(options.folder)
    elif options.command == "speed":
        speed()
    elif options.folder is None:
        sys.exit(f"{options.command} needs a folder of texts")
    elif options.command == "samples":
        write_samples(options.folder)
    else:
        fit(options.folder, options.seeds, options.rounds)


if __name__ == "__main__":
    main()
