"""One virtual environment per framework and end of its range; the suite run in each; the table.

    python -m tests.integrations.environments --only langchain --end newest
    python -m tests.integrations.environments --real http://127.0.0.1:8080/v1 --model MODEL
    python -m tests.integrations.environments --table

Frameworks pin each other out, so each has environments of its own. What came out is kept in
docs/integrations/results.json, one entry per environment, and the table is written from it.
`--real` runs each example against a real server instead, once as it is and once compressed.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.integrations.forced import forced
from tests.integrations.start import START

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "integrations" / "results.json"
REAL = ROOT / "docs" / "integrations" / "real.json"
TABLE = ROOT / "docs" / "integrations" / "compatibility.md"
ENDS = ("newest", "oldest")
COUNTS = "tests.integrations.counts"


@dataclass(frozen=True, slots=True)
class Framework:
    """What is installed for a framework, newest and oldest, and how it is tested.

    The oldest release stands with provider clients of its time: it does not know later ones.
    """

    name: str
    title: str
    newest: tuple[str, ...]
    oldest: tuple[str, ...]
    packages: tuple[str, ...]
    """Whose versions the table shows; the first is the framework itself."""
    first: bool = True
    """Whether CI builds it."""
    start: tuple[str, ...] = ()
    """What stands before the example's name on the command line, before a real server."""
    options: tuple[str, ...] = ()
    """What stands behind it there."""

    @property
    def test(self) -> str:
        return f"tests/integrations/test_{self.name}.py"


FRAMEWORKS = (
    Framework(
        "clients",
        "OpenAI and Anthropic clients",
        ("openai", "anthropic"),
        ("openai==2.0.0", "anthropic==0.70.0"),
        ("openai", "anthropic"),
    ),
    Framework(
        "langchain",
        "LangChain, LangGraph",
        ("langchain", "langgraph", "langchain-openai", "langchain-anthropic"),
        (
            "langchain==1.1.0",
            "langgraph==1.0.2",
            "langgraph-prebuilt==1.0.2",
            "langchain-openai==1.1.0",
            "langchain-anthropic==1.2.0",
            "openai<3",
            "anthropic<1",
        ),
        ("langchain", "langgraph", "langchain-core"),
    ),
    Framework(
        "openai_agents",
        "OpenAI Agents SDK",
        ("openai-agents",),
        ("openai-agents==0.4.0", "openai==2.6.0"),
        ("openai-agents", "openai"),
    ),
    Framework(
        "pydantic_ai",
        "Pydantic AI",
        ("pydantic-ai-slim[openai,anthropic]", "pydantic-ai-harness"),
        ("pydantic-ai-slim[openai,anthropic]==2.0.0", "openai<3", "anthropic<1"),
        ("pydantic-ai-slim", "pydantic-ai-harness"),
    ),
    Framework(
        "litellm",
        "LiteLLM",
        ("litellm[proxy]",),
        ("litellm[proxy]==1.83.0",),
        ("litellm",),
    ),
    Framework(
        "inspect_ai",
        "Inspect AI",
        ("inspect-ai", "openai", "anthropic"),
        ("inspect-ai==0.3.180", "openai==2.17.0", "anthropic==0.80.0"),
        ("inspect-ai",),
        # Its encoding is a download; a count by characters does for a threshold.
        options=("--least-tokens", "375"),
        start=(
            "-c",
            START.format(f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {COUNTS}"),
        ),
    ),
    Framework(
        "smolagents",
        "smolagents",
        ("smolagents[openai]",),
        ("smolagents[openai]==1.21.0",),
        ("smolagents",),
    ),
    Framework(
        "strands",
        "Strands Agents",
        ("strands-agents[openai]",),
        ("strands-agents[openai]==1.10.0", "openai<3"),
        ("strands-agents", "openai"),
        first=False,
    ),
    Framework(
        "agent_framework",
        "Microsoft Agent Framework",
        ("agent-framework-core", "agent-framework-openai"),
        (),
        ("agent-framework-core", "agent-framework-openai"),
        first=False,
    ),
    Framework(
        "google_adk",
        "Google ADK",
        ("google-adk", "litellm[proxy]"),
        ("google-adk==2.0.0", "litellm[proxy]"),
        ("google-adk", "litellm"),
        first=False,
    ),
    Framework(
        "mcp",
        "MCP server (recall)",
        ("mcp",),
        ("mcp==2.0.0",),
        ("mcp",),
        first=False,
    ),
)


def build(framework: Framework, end: str, folder: Path) -> Path:
    """Return the environment's interpreter; it is made if it is not there."""
    home = folder / f"{framework.name}-{end}"
    python = home / "bin" / "python"
    wanted = framework.newest if end == "newest" else framework.oldest
    mark = home / "installed.txt"
    if mark.exists() and mark.read_text() == "\n".join(wanted):
        return python
    _run([sys.executable, "-m", "venv", str(home)])
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    _run([*pip, "--upgrade", "pip>=25.1"])
    _run([*pip, "--editable", str(ROOT), "pytest>=8.4", *wanted])
    mark.write_text("\n".join(wanted))
    return python


def suite(framework: Framework, end: str, python: Path) -> dict[str, Any]:
    """Return what the suite gave in an environment."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", framework.test]
        environment = {**os.environ, "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        ran = subprocess.run(
            [*command, f"--junitxml={report}"], cwd=ROOT, env=environment, check=False
        )
        cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - written by pytest just now
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = [c for c in cases if c.find("skipped") is not None]
    ways = {way for case in cases if case not in skipped for way in _ways(case)}
    broken = {way for case in failed for way in _ways(case)}
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
        "ok": ran.returncode == 0,
    }


def real(framework: Framework, python: Path, url: str, model: str, files: int) -> dict[str, Any]:
    """Return what the server read when the example ran plain and when it ran compressed."""
    folder = ROOT / "docs" / "decisions"
    names = sorted(path.name for path in folder.glob("*.md"))[:files]
    program = ROOT / "examples" / "integrations" / f"with_{framework.name}.py"
    result: dict[str, Any] = {"framework": framework.name, "model": model, "files": len(names)}
    for kind in ("plain", "compressed"):
        with forced(url, names) as door, tempfile.TemporaryDirectory() as here:
            command = [str(python), *framework.start, str(program)]
            command += ["--base-url", door.url, "--model", model, *framework.options]
            command += ["--folder", str(folder), "--files", str(len(names))]
            command += ["--plain"] if kind == "plain" else []
            ran = subprocess.run(
                command, cwd=here, capture_output=True, text=True, check=False, timeout=3_000
            )
        result[kind] = {
            "finished": ran.returncode == 0 and door.calls > len(names),
            "calls": door.calls,
            "prompt_tokens": door.prompt_tokens,
            "largest_prompt": door.largest_prompt,
        }
        if ran.returncode:
            result[kind]["error"] = (ran.stderr.strip().splitlines() or [""])[-1][:200]
    return result


def _ways(case: ET.Element) -> list[str]:
    found = re.search(r"\[([a-z_]+/[a-z_]+)\]$", case.attrib["name"])
    return [f"{case.attrib['classname'].rpartition('.')[2]}: {found[1]}"] if found else []


def _versions(framework: Framework, python: Path) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json, sys\n"
        "name = lambda d: d.metadata['Name'].lower().replace('_', '-')\n"
        "have = {name(d): d.version for d in m.distributions()}\n"
        "print(json.dumps({n: have[n] for n in sys.argv[1:] if n in have}))"
    )
    out = subprocess.run(
        [str(python), "-c", code, *framework.packages], check=True, capture_output=True, text=True
    )
    versions: dict[str, str] = json.loads(out.stdout)
    return versions


def keep(result: dict[str, Any], file: Path, *key: str) -> None:
    """Put a result among the others of a file, in the place of an older one of the same key."""
    results = json.loads(file.read_text()) if file.exists() else []
    same = [result[name] for name in key]
    results = [r for r in results if [r[name] for name in key] != same] + [result]
    order = [framework.name for framework in FRAMEWORKS]
    results.sort(key=lambda r: (order.index(r["framework"]), r.get("end", "")))
    file.write_text(json.dumps(results, indent=1) + "\n")


_ABOUT = (
    "Written by `python -m tests.integrations.environments --table` from results.json. Each row is "
    "a virtual environment with the newest or the oldest release we claim, in which the "
    "[suite](../../tests/integrations/conformance.py) ran: the request on the wire has to be "
    "exactly what `Compressor.compress` makes of the request without us."
)


_REAL = (
    "The programs of [examples/integrations](../../examples/integrations) before a llama.cpp "
    "server: an agent reads files of docs/decisions one by one and answers. The tokens are "
    "those that the server says it read. So small a model calls no tools of its own accord: a "
    "[door](../../tests/integrations/forced.py) makes it, by the server's own grammar. That the "
    "loop finishes is shown by this; what the answers are worth is not."
)


def table(results: list[dict[str, Any]]) -> str:
    """Return the page with the table of what was run.

    >>> print(table([]).splitlines()[0])
    # What was tested with what
    """
    titles = {framework.name: framework.title for framework in FRAMEWORKS}
    lines = [
        "# What was tested with what",
        "",
        _ABOUT,
        "",
        "| framework | releases | paths that passed | tests | Python, day |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        versions = ", ".join(f"{n} {v}" for n, v in result["versions"].items())
        good = _paths([way for way, ok in result["ways"].items() if ok])
        bad = _paths([way for way, ok in result["ways"].items() if not ok])
        passed = f"{result['passed']} passed"
        if result["failed"]:
            passed += f", **{len(result['failed'])} failed**"
        if result["skipped"]:
            passed += f", {result['skipped']} skipped"
        paths = good + (f"; **not** {bad}" if bad else "")
        row = (titles[result["framework"]], versions, paths, passed)
        lines.append(f"| {' | '.join(row)} | {result['python']}, {result['date']} |")
    return "\n".join(lines) + "\n"


def real_table(results: list[dict[str, Any]]) -> str:
    """Return the table of what a real server read, or nothing."""
    if not results:
        return ""
    titles = {framework.name: framework.title for framework in FRAMEWORKS}
    lines = [
        "",
        "## Before a real server",
        "",
        _REAL,
        "",
        "| framework | model | calls | prompt tokens, as it is | compressed | largest prompt |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        plain, compressed = result["plain"], result["compressed"]
        read = [_read(plain), _read(compressed)]
        largest = f"{plain['largest_prompt']:,} -> {compressed['largest_prompt']:,}"
        row = (titles[result["framework"]], result["model"], str(plain["calls"]), *read, largest)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _read(run: dict[str, Any]) -> str:
    tokens = f"{run['prompt_tokens']:,}"
    return tokens if run["finished"] else f"{tokens}, **not finished**"


def _paths(ways: list[str]) -> str:
    grouped: dict[str, list[str]] = {}
    for way in ways:
        group, _, path = way.partition(": ")
        endpoint, _, call = path.partition("/")
        grouped.setdefault(f"{group.removeprefix('Test')} {endpoint}", []).append(call)
    return "; ".join(f"{name}: {', '.join(calls)}" for name, calls in grouped.items())


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


def main() -> int:
    """Build, run, keep and write, as asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", choices=[f.name for f in FRAMEWORKS])
    parser.add_argument("--end", choices=ENDS, help="both if not given")
    default = Path(tempfile.gettempdir()) / "agora-integrations"
    parser.add_argument("--folder", type=Path, default=default, help="of the environments")
    parser.add_argument("--table", action="store_true", help="write the table and run nothing")
    parser.add_argument("--real", metavar="URL", help="run the examples before this server instead")
    parser.add_argument("--model", default="self-hosted", help="its model's name")
    parser.add_argument("--files", type=int, default=6, help="how many files the agent reads")
    asked = parser.parse_args()
    good = True
    for framework in () if asked.table else FRAMEWORKS:
        if framework.name not in (asked.only or [f.name for f in FRAMEWORKS if f.first]):
            continue
        if asked.real:
            python = build(framework, "newest", asked.folder)
            result = real(framework, python, asked.real, asked.model, asked.files)
            keep(result, REAL, "framework", "model")
            good = good and result["plain"]["finished"] and result["compressed"]["finished"]
            continue
        for end in [asked.end] if asked.end else ENDS:
            if end == "oldest" and not framework.oldest:
                continue  # Only the newest is claimed.
            result = suite(framework, end, build(framework, end, asked.folder))
            keep(result, RESULTS, "framework", "end")
            good = good and result["ok"]
    texts = [file.read_text() if file.exists() else "[]" for file in (RESULTS, REAL)]
    TABLE.write_text(table(json.loads(texts[0])) + real_table(json.loads(texts[1])))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
