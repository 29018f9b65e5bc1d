"""Build an environment per framework, run its suite there, and write what was found.

    python -m tests.integrations.environments                  # the first ones, newest and oldest
    python -m tests.integrations.environments --check          # the same, and write nothing
    python -m tests.integrations.environments --check --brief  # less of the oldest: CI
    python -m tests.integrations.environments --only langchain --end newest
    python -m tests.integrations.environments --move           # newer releases, if they pass
    python -m tests.integrations.environments --real http://127.0.0.1:8080/v1 --model MODEL
    python -m tests.integrations.environments --table

Frameworks pin each other out, so each has environments of its own. What is installed stands to the
last release in locks/; `--move` takes what is newest today, and writes the lock if the suite
passes. What came out is kept in docs/integrations/results.json, one entry per environment, and the
table is written from it. `--real` runs each example before a real server instead, once as it is
and once compressed.
"""

import argparse
import contextlib
import json
import platform
import re
import shutil
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integrations.commands import Ended, run, stop_all
from tests.integrations.forced import forced
from tests.integrations.frameworks import ENDS, FRAMEWORKS, ROOT, Framework
from tests.integrations.pages import write

RESULTS = ROOT / "docs" / "integrations" / "results.json"
REAL = ROOT / "docs" / "results" / "integrations.json"
INSTALL_S = 420
SUITE_S = 600
"""A suite takes half a minute; one that takes this long hangs."""
BRIEF = "exactly_what_the_compressor_gives or edited_at_every_call"
"""The tests that run each way of calling once, without us and with us."""
HAVE = (
    "import importlib.metadata as m\n"
    "have = {d.metadata['Name'].lower().replace('_', '-'): d.version for d in m.distributions()}\n"
    "own = ('agora-context', 'pip', 'setuptools', 'wheel')\n"
    "print(*sorted(f'{n}=={v}' for n, v in have.items() if n not in own), sep='\\n')"
)


class InstallError(Exception):
    """An environment that could not be built."""


def build(framework: Framework, end: str, folder: Path, *, locked: bool = True) -> Path:
    """Return the environment's interpreter; it is made if it is not there.

    Raises:
        InstallError: it could not be made, at the second attempt either.
    """
    home = folder / f"{framework.name}-{end}"
    python = home / "bin" / "python"
    wanted = framework.newest if end == "newest" else framework.oldest
    lock = framework.lock(end)
    locked = locked and lock.exists()
    mark = home / "installed.txt"
    text = "\n".join([*wanted, lock.read_text() if locked else "not locked"])
    if mark.exists() and mark.read_text() == text:
        return python
    what = ["--editable", str(ROOT), "pytest>=8.4", *wanted]
    what += ["--constraint", str(lock)] if locked else []
    for attempt in (1, 2):
        ended = _installed(home, python, what)
        if ended.ok:
            mark.write_text(text)
            return python
        if attempt == 1:
            time.sleep(5)
    raise InstallError(ended.output.strip()[-2_000:])


def _installed(home: Path, python: Path, what: Sequence[str]) -> Ended:
    # Many times as quick as pip, and it shares its downloads among the environments.
    extra = Path(sys.executable).with_name("uv")
    uv = str(extra) if extra.exists() else shutil.which("uv")
    if uv:
        made = run([uv, "venv", "-q", "--clear", "--python", sys.executable, home], seconds=120)
        command = [uv, "pip", "install", "-q", "--python", str(python), *what]
    else:
        made = run([sys.executable, "-m", "venv", "--clear", home], seconds=120)
        command = [str(python), "-m", "pip", "install", "-qq", *what]
    return run(command, seconds=INSTALL_S, cwd=ROOT) if made.ok else made


def suite(framework: Framework, end: str, python: Path, *, brief: bool = False) -> dict[str, Any]:
    """Return what the suite gave in an environment, or what its brief tests gave."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", framework.test]
        command += ["-k", BRIEF] if brief else []
        ran = run(
            [*command, f"--junitxml={report}"],
            seconds=SUITE_S,
            cwd=ROOT,
            # Bytecode is kept: nothing was compiled when it was installed, and the suites start
            # their examples and servers as processes of their own.
            env={"OPENAI_AGENTS_DISABLE_TRACING": "1", "PYTHONDONTWRITEBYTECODE": ""},
        )
        cases: list[ET.Element] = []
        with contextlib.suppress(OSError, ET.ParseError):  # Killed before it could write one.
            cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - written by pytest
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = [c for c in cases if c.find("skipped") is not None]
    ways = {way for case in cases if case not in skipped for way in _ways(case)}
    broken = {way for case in failed for way in _ways(case)}
    if not ran.ok:
        sys.stdout.write(f"{ran.output[-20_000:]}\n")
    return {
        "framework": framework.name,
        "end": end,
        "versions": _versions(framework, python),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "passed": len(cases) - len(failed) - len(skipped),
        "failed": [case.attrib["name"] for case in failed],
        "skipped": len(skipped),
        "ways": {way: way not in broken for way in sorted(ways)},
        "ok": ran.ok,
    }


def real(framework: Framework, python: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Return what the server read when the example ran plain and when it ran compressed."""
    folder = ROOT / "docs" / "decisions"
    names = sorted(path.name for path in folder.glob("*.md"))[: asked.files]
    program = ROOT / "examples" / "integrations" / f"with_{framework.name}.py"
    result: dict[str, Any] = {
        "framework": framework.name,
        "versions": _versions(framework, python),
        "model": asked.model,
        "date": datetime.now(UTC).date().isoformat(),
        "files": len(names),
        "forced": asked.forced,
    }
    for kind in ("plain", "compressed"):
        made = names if asked.forced else ()
        with forced(asked.real, made) as door, tempfile.TemporaryDirectory() as here:
            command = [python, *framework.start, program, "--base-url", door.url]
            command += ["--model", asked.model, "--folder", folder, "--files", len(names)]
            command += ["--min-tokens", asked.min_tokens, *framework.options]
            command += ["--plain"] if kind == "plain" else []
            ran = run([str(word) for word in command], seconds=3_000, cwd=Path(here))
        result[kind] = {
            "finished": ran.ok and door.calls > door.read >= len(names),
            "calls": door.calls,
            "prompt_tokens": sum(door.prompts),
            "largest_prompt": max(door.prompts, default=0),
            "answer": door.last.strip()[:300],
        }
        if not ran.ok:
            result[kind]["error"] = (ran.output.strip().splitlines() or [""])[-1][:200]
    return result


def _ways(case: ET.Element) -> list[str]:
    found = re.search(r"\[([a-z_]+/[a-z_]+)\]$", case.attrib["name"])
    return [f"{case.attrib['classname'].rpartition('.')[2]}: {found[1]}"] if found else []


def _releases(python: Path) -> list[str]:
    return run([python, "-c", HAVE], seconds=120).output.split()


def _versions(framework: Framework, python: Path) -> dict[str, str]:
    have = dict(line.split("==") for line in _releases(python))
    return {name: have[name] for name in framework.packages if name in have}


def keep(result: dict[str, Any], file: Path, *key: str) -> None:
    """Put a result among the others of a file, in the place of an older one of the same key."""
    results = json.loads(file.read_text()) if file.exists() else []
    same = [result[name] for name in key]
    results = [r for r in results if [r[name] for name in key] != same] + [result]
    order = [framework.name for framework in FRAMEWORKS]
    results.sort(key=lambda r: (order.index(r["framework"]), r.get("end", "")))
    file.write_text(json.dumps(results, indent=1) + "\n")


def tested(framework: Framework, end: str, asked: argparse.Namespace) -> dict[str, Any] | None:
    """Return what the suite gave, or nothing where the environment could not be built."""
    start = time.monotonic()
    try:
        python = build(framework, end, asked.folder, locked=not asked.move)
    except InstallError as error:
        _say(f"{framework.name} {end}: could not be installed\n{error}")
        return None
    built = time.monotonic()
    # A suite without an agent is short, and has no such tests.
    brief = asked.brief and end == "oldest" and framework.loop
    result = suite(framework, end, python, brief=brief)
    took = f"built in {built - start:.0f} s, suite in {time.monotonic() - built:.0f} s"
    count = f"{result['passed']} passed, {result['skipped']} skipped"
    bad = f", FAILED: {', '.join(result['failed']) or 'no report'}" if not result["ok"] else ""
    _say(f"{framework.name} {end}: {count}{bad}; {took}")
    if asked.move and result["ok"]:
        lock = framework.lock(end)
        lock.parent.mkdir(exist_ok=True)
        lock.write_text("".join(f"{line}\n" for line in _releases(python)))
    return result


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def tested_all(frameworks: Sequence[Framework], asked: argparse.Namespace) -> bool:
    """Return whether every suite passed; so many run side by side as there are jobs."""
    good = True
    with ThreadPoolExecutor(asked.jobs) as pool:
        ends = [asked.end] if asked.end else ENDS
        wanted = [(f, end) for f in frameworks for end in ends if end in f.ends()]
        try:
            for future in as_completed([pool.submit(tested, f, end, asked) for f, end in wanted]):
                result = future.result()
                good = good and result is not None and result["ok"]
                if result is not None and not asked.check:
                    keep(result, RESULTS, "framework", "end")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise
    return good


def main() -> int:
    """Build, run, keep and write, as asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", choices=[f.name for f in FRAMEWORKS])
    parser.add_argument("--all", action="store_true", help="not only those that CI builds")
    parser.add_argument("--end", choices=ENDS, help="both if not given")
    default = Path(tempfile.gettempdir()) / "agora-integrations"
    parser.add_argument("--folder", type=Path, default=default, help="of the environments")
    parser.add_argument("--jobs", type=int, default=2, help="environments at the same time")
    parser.add_argument("--check", action="store_true", help="write nothing")
    brief = "of the oldest only that each way sends what the compressor gives; with --check"
    parser.add_argument("--brief", action="store_true", help=brief)
    parser.add_argument("--move", action="store_true", help="take newer releases, and lock them")
    parser.add_argument("--table", action="store_true", help="write the pages and run nothing")
    parser.add_argument("--real", metavar="URL", help="run the examples before this server instead")
    parser.add_argument("--model", default="self-hosted", help="its model's name")
    parser.add_argument("--files", type=int, default=4, help="how many files the agent reads")
    parser.add_argument("--min-tokens", type=int, default=700, help="left alone below")
    parser.add_argument("--forced", action="store_true", help="make the model call its tool")
    asked = parser.parse_args()
    if asked.brief and not asked.check:
        parser.error("--brief needs --check: the table is of whole suites")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    asked.folder.mkdir(parents=True, exist_ok=True)
    names = asked.only or [f.name for f in FRAMEWORKS if f.first or asked.all]
    frameworks = [f for f in FRAMEWORKS if f.name in names]
    good = True
    if asked.real:
        for framework in [f for f in frameworks if f.loop]:
            result = real(framework, build(framework, "newest", asked.folder), asked)
            _say(json.dumps(result))
            keep(result, REAL, "framework", "model")
            good = good and result["plain"]["finished"] and result["compressed"]["finished"]
    elif not asked.table:
        good = tested_all(frameworks, asked)
    if not asked.check:
        write(RESULTS, REAL)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
