"""Clean environments for the built wheels of both distributions.

    python -m tests.release.environments dist --out docs/results/release.json
    python -m tests.release.environments dist --only agora-context agora-context[cli] lowest
    python -m tests.release.environments dist --before OLD_DIST OLD_COMMIT --only --out …

An environment is named by what is installed in it: `agora-context`, `agora-lab[llama]`. In each,
every module of the distribution is imported: it has to load, or to name an extra that is not
there. The first call has to be compressed. `agora-context` alone may bring nothing else. At the
lowest versions of what the extras name, the tests of core, adapters, commands and scorers are run.
Needs uv; torch is installed by pip, in a release that is built for the CPU alone.
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
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECTS = {"agora-context": ROOT / "pyproject.toml", "agora-lab": ROOT / "lab" / "pyproject.toml"}
TORCH = "torch==2.13.0"
"""Built for the CPU alone; a plain one brings gigabytes for accelerators."""
WITH_TORCH = {"agora-lab[judge]", "agora-lab[train-encoders]"}
HEAVY = {"agora-lab[environments]": "compiles ALFWorld for minutes and needs Java"}
"""Environments that are left out unless they are asked for by name."""
LOWEST = ("cli", "testing", "gateway", "onnx")
LOWEST_TESTS = "tests/core tests/adapters tests/cli tests/scorers tests/test_compressor.py"
INSIDE = Path(__file__).with_name("everything.py")


def project(distribution: str) -> dict[str, Any]:
    """Return what a distribution says of itself in its project file."""
    settings = tomllib.loads(PROJECTS[distribution].read_text(encoding="utf-8"))
    found: dict[str, Any] = settings["project"]
    return found


def environments() -> list[str]:
    """Return the name of every environment: each distribution alone, and with each extra."""
    return [
        name
        for distribution in PROJECTS
        for name in (
            distribution,
            *(
                f"{distribution}[{extra}]"
                for extra in project(distribution)["optional-dependencies"]
            ),
        )
    ]


def implied(name: str) -> set[str]:
    """Return the extras that an environment has, those that others take in included."""
    distribution, _, extra = name.rstrip("]").partition("[")
    described = project(distribution)
    requirements = [*described["dependencies"]]
    if extra:
        requirements += described["optional-dependencies"][extra]
    found = {extra} if extra else set[str]()
    for requirement in requirements:
        if own := re.match(r"(agora-[a-z]+)\[(.+?)\]", requirement):
            found |= {one for other in own[2].split(",") for one in implied(f"{own[1]}[{other}]")}
    return found


def described(wheel: Path) -> dict[str, Any]:
    """Return the size of a wheel, and how many modules and lines of Python it holds."""
    with zipfile.ZipFile(wheel) as archive:
        modules = [name for name in archive.namelist() if name.endswith(".py")]
        lines = sum(archive.read(name).count(b"\n") for name in modules)
    return {
        "wheel": wheel.name,
        "bytes": wheel.stat().st_size,
        "modules": len(modules),
        "lines": lines,
    }


def make(
    folder: Path, what: list[str], *options: str, with_torch: bool = False
) -> tuple[Path, float]:
    """Return the interpreter of a new environment with `what`, and the seconds it took."""
    python = folder / "bin" / "python"
    seed = ["--seed"] if with_torch else []
    _run(["uv", "venv", "--quiet", *seed, str(folder), "--python", sys.executable])
    started = time.monotonic()
    if with_torch:
        _run([str(python), "-m", "pip", "install", "--quiet", TORCH])
    _run(["uv", "pip", "install", "--quiet", "--python", str(python), *options, *what])
    return python, time.monotonic() - started


def tried(name: str, wheels: dict[str, Path], folder: Path) -> dict[str, Any]:
    """Return what an environment holds and what its modules say."""
    distribution, bracket, extra = name.partition("[")
    # The lab asks for the product by version: given as a file, that is the one it gets.
    others = [str(wheels["agora-context"])] if distribution != "agora-context" else []
    asked = [*others, f"{wheels[distribution]}{bracket}{extra}"]
    python, seconds = make(folder, asked, with_torch=name in WITH_TORCH)
    package = distribution.replace("-context", "").replace("-", "_")
    said = json.loads(_run([str(python), "-I", str(INSIDE), package]))
    listed = json.loads(_run(["uv", "pip", "list", "--python", str(python), "--format", "json"]))
    problems = [f"{module}: {problem}" for module, problem in said["failed"].items()]
    problems += [
        f"{module} still lacks {extra}"
        for extra in sorted(implied(name) & said["missing"].keys())
        for module in said["missing"][extra]
    ]
    packages = sorted(row["name"] for row in listed if row["name"] not in {*PROJECTS, "pip"})
    if name == "agora-context" and packages:
        problems.append(f"the base brings {', '.join(packages)}")
    return {
        "environment": name,
        "packages": len(packages),
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
    asked_for = project("agora-context")["optional-dependencies"]
    direct = {re.split(r"[<>=!;\[ ]", line)[0] for extra in LOWEST for line in asked_for[extra]}
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


def figures(
    wheels: dict[str, Path], rows: dict[str, dict[str, Any]], before: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what is stored of a release."""
    order = [*environments(), "lowest"]
    return {
        "wheels": {name: described(wheel) for name, wheel in wheels.items()},
        **({"before": before} if before else {}),
        "environments": [rows[name] for name in order if name in rows],
        "left_out": {
            name: HEAVY.get(name, "not tried") for name in environments() if name not in rows
        },
    }


def built(folder: Path) -> dict[str, Path]:
    """Return the wheel of each distribution that a folder holds."""
    found = {name: [*folder.glob(f"{name.replace('-', '_')}-*.whl")] for name in PROJECTS}
    if wrong := [name for name, wheels in found.items() if len(wheels) != 1]:
        raise SystemExit(f"{folder} does not hold one wheel of {wrong[0]}: just release builds it")
    return {name: wheels[0].resolve() for name, wheels in found.items()}


def main() -> None:
    """Try each environment, print a line for it, and end with 1 if one of them has a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, help="the folder of the built wheels")
    parser.add_argument("--only", nargs="*", help="environments by name")
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--before", nargs=2, metavar=("WHEEL", "COMMIT"), help="a wheel to compare the sizes with"
    )
    given = parser.parse_args()
    if shutil.which("uv") is None:
        raise SystemExit("uv makes the environments: pip install uv")
    wheels = built(given.dist)
    rows: dict[str, dict[str, Any]] = {}
    before: dict[str, Any] | None = None
    if given.out and given.out.exists():
        # Those that are not tried this time stay.
        kept = json.loads(given.out.read_text(encoding="utf-8"))
        rows = {row["environment"]: row for row in kept["environments"]}
        before = kept.get("before")
    if given.before:
        before = {"commit": given.before[1], **described(Path(given.before[0]))}
    names = [*(name for name in environments() if name not in HEAVY), "lowest"]
    for name in names if given.only is None else given.only:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "venv"
            if name == "lowest":
                row = lowest(wheels["agora-context"], home)
            else:
                row = tried(name, wheels, home)
        rows[name] = row
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        if given.out:
            _write(given.out, figures(wheels, rows, before))
    if given.out:
        _write(given.out, figures(wheels, rows, before))
    if any(row["problems"] for row in rows.values()):
        raise SystemExit(1)


def _write(out: Path, found: dict[str, Any]) -> None:
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
