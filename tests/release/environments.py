"""Clean environments for a built wheel: the base alone, each extra alone, the lowest versions.

    python -m tests.release.environments dist/agora_context-*.whl --out docs/results/release.json
    python -m tests.release.environments dist/agora_context-*.whl --only base cli lowest

In each, every module of the package is imported: it has to load, or to name another extra. The
first call has to be compressed. The base may bring nothing else. At the lowest versions of what
the extras name the tests of core, adapters, commands, gateway and scorers are run. Needs uv.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HEAVY = {
    "environments": "compiles ALFWorld for minutes and needs Java",
    "train-encoders": "brings torch, whose plain build is gigabytes",
}
"""Extras that are left out unless they are asked for by name."""
LOWEST = ("cli", "testing", "gateway", "onnx")
LOWEST_TESTS = "tests/core tests/adapters tests/cli tests/scorers tests/test_compressor.py"
INSIDE = Path(__file__).with_name("everything.py")


def extras() -> dict[str, list[str]]:
    """Return the extras of the project, with what they name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = settings["project"]["optional-dependencies"]
    return found


def implied(extra: str) -> set[str]:
    """Return an extra with those it takes in."""
    found = {extra}
    for requirement in extras()[extra]:
        own = re.fullmatch(r"agora-context\[(.+)\]", requirement)
        for other in own[1].split(",") if own else ():
            found |= implied(other)
    return found


def make(folder: Path, what: list[str], *options: str) -> tuple[Path, float]:
    """Return the interpreter of a new environment with `what`, and the seconds it took."""
    python = folder / "bin" / "python"
    _run(["uv", "venv", "--quiet", str(folder), "--python", sys.executable])
    started = time.monotonic()
    _run(["uv", "pip", "install", "--quiet", "--python", str(python), *options, *what])
    return python, time.monotonic() - started


def tried(name: str, wheel: Path, folder: Path) -> dict[str, Any]:
    """Return what an environment holds and what its modules say."""
    wanted = f"{wheel}[{name}]" if name != "base" else str(wheel)
    python, seconds = make(folder, [wanted])
    said = json.loads(_run([str(python), "-I", str(INSIDE)]))
    listed = json.loads(_run(["uv", "pip", "list", "--python", str(python), "--format", "json"]))
    own = implied(name) if name != "base" else set[str]()
    problems = [f"{module}: {problem}" for module, problem in said["failed"].items()]
    problems += [
        f"{module} still lacks {extra}"
        for extra in sorted(own & said["missing"].keys())
        for module in said["missing"][extra]
    ]
    if name == "base" and len(listed) != 1:
        problems.append(f"the base brings {', '.join(row['name'] for row in listed)}")
    return {
        "environment": name,
        "packages": len(listed) - 1,
        "megabytes": _megabytes(folder),
        "seconds": round(seconds, 1),
        "modules": said["modules"],
        "loaded": said["modules"] - sum(map(len, said["missing"].values())),
        "problems": problems,
    }


def lowest(wheel: Path, folder: Path) -> dict[str, Any]:
    """Return what the tests say at the lowest versions that the extras name."""
    # A wheel's own requirements count as somebody else's: the project file names them directly.
    names = [option for extra in LOWEST for option in ("--extra", extra)]
    asked = ["--requirement", str(ROOT / "pyproject.toml"), *names, "pytest>=8.4"]
    python, seconds = make(folder, asked, "--resolution", "lowest-direct")
    _run(["uv", "pip", "install", "--quiet", "--python", str(python), "--no-deps", str(wheel)])
    pins = _run(["uv", "pip", "freeze", "--python", str(python)]).splitlines()
    direct = {re.split(r"[<>=!;\[ ]", line)[0] for extra in LOWEST for line in extras()[extra]}
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-m", "not long and not timing", *LOWEST_TESTS.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr[-300:]]
    return {
        "environment": "lowest",
        "versions": sorted(pin for pin in pins if pin.partition("==")[0] in direct),
        "seconds": round(seconds, 1),
        "tests": last[0].strip("= "),
        "problems": [
            line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
        ]
        if done.returncode
        else [],
    }


def _megabytes(folder: Path) -> float:
    sizes = (path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return round(sum(sizes) / 1e6, 1)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    """Try each environment, print a line for it, and end with 1 if one of them has a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if shutil.which("uv") is None:
        raise SystemExit("uv makes the environments: pip install uv")
    names = ["base", *(name for name in extras() if name not in HEAVY), "lowest"]
    rows: dict[str, dict[str, Any]] = {}
    if given.out and given.out.exists():
        # Those that are not tried this time stay.
        kept = json.loads(given.out.read_text(encoding="utf-8"))["environments"]
        rows = {row["environment"]: row for row in kept}
    for name in given.only or names:
        with tempfile.TemporaryDirectory() as folder:
            wheel, home = given.wheel.resolve(), Path(folder) / "venv"
            row = lowest(wheel, home) if name == "lowest" else tried(name, wheel, home)
        rows[name] = row
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        if given.out:
            figures = {
                "wheel": given.wheel.name,
                "bytes": given.wheel.stat().st_size,
                "environments": [*rows.values()],
                "left_out": {extra: why for extra, why in HEAVY.items() if extra not in rows},
            }
            given.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if any(row["problems"] for row in rows.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
