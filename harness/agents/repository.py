"""A made-up repository for agents to read: the same bytes for the same seed."""

import random
import subprocess
from pathlib import Path

FILES = 60
_WORDS = (
    "account ledger invoice route planner cache broker session token parser writer reader index "
    "shard replica quorum lease epoch cursor batch"
).split()
_SMALLEST, _LARGEST = 8_000, 14_000
"""Characters of a file: what a model reads in one go, and what an agent does not truncate."""


def make_repository(folder: Path, *, seed: int = 7) -> tuple[Path, ...]:
    """Write the repository, commit it, and return its source files in reading order."""
    chance = random.Random(seed)
    written = []
    for number in range(FILES):
        first, second = chance.choice(_WORDS), chance.choice(_WORDS)
        path = folder / "pkg" / f"part{number // 12}" / f"{first}_{second}_{number:02d}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_module(chance, number, first, second), encoding="utf-8")
        written.append(path)
    (folder / "README.md").write_text("# A made-up repository\n", encoding="utf-8")
    _commit(folder)
    return tuple(written)


def source_files(folder: Path) -> tuple[Path, ...]:
    """Return the source files of a repository that is there already, in reading order."""
    return tuple(sorted(folder.glob("pkg/part*/*.py"), key=lambda path: path.stem[-2:]))


def _module(chance: random.Random, number: int, first: str, second: str) -> str:
    lines = [f'"""Module {number}: {first} and {second}."""', "", "import json", "import os", ""]
    wanted, count = chance.randint(_SMALLEST, _LARGEST), 0
    while sum(map(len, lines)) < wanted:
        count += 1
        lines += _function(chance, f"{number}_{count}")
    return "\n".join(lines)


def _function(chance: random.Random, suffix: str) -> list[str]:
    one, two = chance.choice(_WORDS), chance.choice(_WORDS)
    limit, name = chance.randint(1, 9_999), f"{one}-{chance.randint(1_000, 9_999)}"
    return [
        f"def {one}_{two}_{suffix}(value, *, limit={limit}, name='{name}'):",
        f'    """Return the {one} of a {two}; limit is {chance.randint(1, 999)}."""',
        f"    total = {chance.randint(1, 10**6)}",
        "    for item in range(limit):",
        f"        total += item * {chance.randint(2, 97)} % {chance.randint(100, 999)}",
        f"    return {{'{two}': total, 'id': 'ID-{chance.randint(10**5, 10**6)}', 'value': value}}",
        "",
    ]


def _commit(folder: Path) -> None:
    if (folder / ".git").is_dir():
        return
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com")
    for command in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "made up")):
        subprocess.run(("git", *command), cwd=folder, env=environment, check=True)
