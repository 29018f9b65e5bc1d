"""Build an environment per framework, run its suite there, and write which releases passed.

    python -m tests.integrations.environments                  # newest and oldest
    python -m tests.integrations.environments --check          # the same, and write nothing
    python -m tests.integrations.environments --check --brief  # fewer tests of the oldest releases
    python -m tests.integrations.environments --only langchain --end newest
    python -m tests.integrations.environments --move           # newer releases, if they pass
    python -m tests.integrations.environments --table          # only the page

Frameworks pin each other out, so each has environments of its own, installed from the releases in
locks/. `--move` installs what is newest today, and writes the lock if the suite passes. The results
are kept in docs/reference/compatibility.json, and compatibility.md beside it is made from them.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integrations.frameworks import ENDS, FRAMEWORKS, ROOT, Framework

RESULTS = ROOT / "docs" / "reference" / "compatibility.json"
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
INSTALL_SECONDS = 1_800
SUITE_SECONDS = 1_800
BRIEF = "exactly_what_the_compressor_gives or edited_at_every_call"
"""The tests that run each way of calling once, without AGORA and with it."""
TABLE = re.compile(r"(<!-- made: releases -->\n).*?(<!-- /made -->)", re.DOTALL)
"""The place of the table in the page."""


def python_of(framework: Framework, end: str, folder: Path, *, locked: bool = True) -> Path:
    """Return the interpreter of a framework's environment, which is built if it is not there.

    Raises:
        subprocess.CalledProcessError: it could not be built.
        subprocess.TimeoutExpired: the installation took too long.
    """
    home = folder / f"{framework.name}-{end}"
    python = home / "bin" / "python"
    releases = framework.newest if end == "newest" else framework.oldest
    lock = framework.lock(end)
    constraints = lock.read_text() if locked and lock.exists() else ""
    installed = home / "installed.txt"
    wanted = "\n".join([*releases, constraints])
    if installed.exists() and installed.read_text() == wanted:
        return python
    what = ["--editable", str(ROOT), "pytest>=8.4", "hypothesis", *releases]
    what += ["--constraint", str(lock)] if constraints else []
    _run([sys.executable, "-m", "venv", "--clear", str(home)], INSTALL_SECONDS, check=True)
    _run([str(python), "-m", "pip", "install", "-qq", *what], INSTALL_SECONDS, check=True)
    installed.write_text(wanted)
    return python


def _run(
    command: Sequence[str], seconds: float, *, check: bool = False
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        timeout=seconds,
        check=check,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def suite(framework: Framework, end: str, python: Path, *, brief: bool = False) -> dict[str, Any]:
    """Run a framework's tests in its environment, and return which passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", framework.test]
        command += ["-k", BRIEF] if brief else []
        ran = _run([*command, f"--junitxml={report}"], SUITE_SECONDS)
        cases = list(ET.parse(report).iter("testcase")) if report.exists() else []  # noqa: S314
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = [c for c in cases if c.find("skipped") is not None]
    ways = {way for case in cases if case not in skipped for way in _ways(case)}
    broken = {way for case in failed for way in _ways(case)}
    if ran.returncode:
        sys.stdout.write(f"{ran.stdout[-20_000:]}\n")
    have = dict(line.split("==") for line in _releases(python))
    return {
        "framework": framework.name,
        "end": end,
        "versions": {name: have[name] for name in framework.packages if name in have},
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "passed": len(cases) - len(failed) - len(skipped),
        "failed": [case.attrib["name"] for case in failed],
        "skipped": len(skipped),
        "ways": {way: way not in broken for way in sorted(ways)},
        "ok": not ran.returncode,
    }


def _ways(case: ET.Element) -> list[str]:
    found = re.search(r"\[([a-z_]+/[a-z_]+)\]$", case.attrib["name"])
    return [f"{case.attrib['classname'].rpartition('.')[2]}: {found[1]}"] if found else []


def _releases(python: Path) -> list[str]:
    command = [str(python), "-m", "pip", "freeze", "--exclude-editable"]
    return _run(command, INSTALL_SECONDS, check=True).stdout.split()


def keep(result: dict[str, Any]) -> None:
    """Write a result in the place of an older one of the same environment."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    order = [(framework.name, end) for framework in FRAMEWORKS for end in ENDS]
    by_environment = {(r["framework"], r["end"]): r for r in [*results, result]}
    kept = [by_environment[key] for key in order if key in by_environment]
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the table of tested releases.

    >>> print(table([]).splitlines()[0])
    | framework | releases | paths that passed | tests | day |
    """
    titles = {framework.name: framework.title for framework in FRAMEWORKS}
    lines = ["| framework | releases | paths that passed | tests | day |", "|---|---|---|---|---|"]
    for result in results:
        versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        counts = [f"{result['passed']} passed"]
        counts += [f"**{len(result['failed'])} failed**"] if result["failed"] else []
        counts += [f"{result['skipped']} skipped"] if result["skipped"] else []
        passed = _grouped([way for way, ok in result["ways"].items() if ok])
        row = (titles[result["framework"]], versions, passed, ", ".join(counts), result["date"])
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _grouped(ways: Sequence[str]) -> str:
    calls: dict[str, list[str]] = {}
    for way in ways:
        group, _, path = way.partition(": ")
        endpoint, _, call = path.partition("/")
        calls.setdefault(f"{group.removeprefix('Test')} {endpoint}", []).append(call)
    return "; ".join(f"{name}: {', '.join(names)}" for name, names in calls.items())


def tested(framework: Framework, end: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the suite's result, or None if the environment could not be built."""
    began = time.monotonic()
    try:
        python = python_of(framework, end, options.folder, locked=not options.move)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        sys.stdout.write(f"{framework.name} {end}: could not be installed\n{error.output}\n")
        return None
    result = suite(framework, end, python, brief=options.brief and end == "oldest")
    failed = f", FAILED: {', '.join(result['failed']) or 'no report'}" if not result["ok"] else ""
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{framework.name} {end}: {result['passed']} passed, {result['skipped']} skipped{failed}; "
        f"{seconds:.0f} s\n"
    )
    sys.stdout.flush()
    if options.move and result["ok"]:
        framework.lock(end).write_text("".join(f"{line}\n" for line in _releases(python)))
    return result


def main() -> int:
    """Build, run and write, as asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", choices=[f.name for f in FRAMEWORKS])
    parser.add_argument("--end", choices=ENDS, help="both if not given")
    default = Path(tempfile.gettempdir()) / "agora-integrations"
    parser.add_argument("--folder", type=Path, default=default, help="of the environments")
    parser.add_argument("--jobs", type=int, default=2, help="environments at the same time")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--brief", action="store_true", help="fewer tests of the oldest releases")
    parser.add_argument("--move", action="store_true", help="take newer releases, and lock them")
    parser.add_argument("--table", action="store_true", help="write the page and run nothing")
    options = parser.parse_args()
    if options.brief and not options.check:
        parser.error("--brief needs --check: the table is of whole suites")
    results: list[dict[str, Any] | None] = []
    if not options.table:
        options.folder.mkdir(parents=True, exist_ok=True)
        names = options.only or [f.name for f in FRAMEWORKS]
        ends = [options.end] if options.end else ENDS
        wanted = [(f, end) for f in FRAMEWORKS if f.name in names for end in ends]
        with ThreadPoolExecutor(options.jobs) as pool:
            futures = [pool.submit(tested, f, end, options) for f, end in wanted]
            results = [future.result() for future in futures]
    if not options.check:
        for result in filter(None, results):
            keep(result)
        text = table(json.loads(RESULTS.read_text()))
        PAGE.write_text(TABLE.sub(lambda place: place[1] + text + place[2], PAGE.read_text()))
    return 0 if all(result and result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
