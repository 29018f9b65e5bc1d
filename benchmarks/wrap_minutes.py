"""From nothing to a wrapped Claude Code session: which lines are typed, and how long they take.

    python -m benchmarks.wrap_minutes WHEEL --claude FOLDER --out benchmarks/results/wrap.json
    python -m benchmarks.wrap_minutes WHEEL --install-claude      with Claude Code from npm first

A new virtual environment, a home with nothing in it, no cache of packages. Two things are put in
the place of what a stranger would have: the wheel for the name on the package index, and a fake
provider on loopback, with a made-up key. FOLDER has the program `claude` (and `node`, if it needs
one). The clock stops when the session, one file read and an answer, has ended. On a busy machine
the processor time says more than the minutes.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.agents.drivers import AGENTS, ANTHROPIC_KEY, NODE
from harness.agents.repository import make_repository
from harness.agents.session import free_ports, process, wait_for
from harness.gateway.results import put

LINES = ("pip install 'agora-context[wrap]'", "agora wrap claude -p 'Read the first file.'")
INSTALL = "npm install -g @anthropic-ai/claude-code"


def main() -> None:
    """Type the lines, and say how long each took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--claude", type=Path, action="append", default=[], help="on the PATH")
    parser.add_argument("--install-claude", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_repository(folder / "repository")
        (folder / "home").mkdir()
        subprocess.run((sys.executable, "-m", "venv", str(folder / "venv")), check=True)
        (port,) = free_ports(1)
        stage = (
            *(sys.executable, "-m", "harness.agents.stage", "--record", str(folder / "rec")),
            *("--provider", str(port), "--repository", str(folder / "repository"), "--steps", "1"),
        )
        with process(stage, folder / "stage.log"):
            wait_for(port)
            before = _cpu_seconds()
            seconds = _type(options, folder, port)
            cpu = _cpu_seconds() - before
    total = round(sum(seconds.values()) / 60, 2)
    print(f"{len(seconds)} lines, {total} minutes, {cpu:.0f} s of them on a processor")
    figures = {
        "lines": seconds,
        "minutes": total,
        "cpu_seconds": round(cpu, 1),
        "load": round(os.getloadavg()[0], 1),
    }
    if options.out:
        kind = "first minutes with npm" if options.install_claude else "first minutes"
        put(options.out, kind, figures)


def _cpu_seconds() -> float:
    """Return the processor time of everything that was run and has ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _type(options: argparse.Namespace, folder: Path, port: int) -> dict[str, float]:
    """Type each line, and return how long it took."""
    programs = [folder / "venv/bin", folder / "npm/bin", *options.claude]
    environment = {
        "PATH": ":".join((*map(str, programs), "/usr/local/bin:/usr/bin:/bin")),
        "HOME": str(folder / "home"),
        "PIP_NO_CACHE_DIR": "1",
        "npm_config_prefix": str(folder / "npm"),
        # Where packages come from here is no part of what is measured.
        **{
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "npm_config_")) or name == "NODE_EXTRA_CA_CERTS"
        },
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": ANTHROPIC_KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    lines = (INSTALL, *LINES) if options.install_claude else LINES
    exact = f"{AGENTS['claude'].package.name}@{AGENTS['claude'].package.version}"
    node = f"{NODE.name}@{NODE.version}"
    seconds = {}
    for line in lines:
        meant = line.replace("agora-context", str(options.wheel.resolve()))
        meant = meant.replace(AGENTS["claude"].package.name, f"{exact} {node}")
        began = time.monotonic()
        done = subprocess.run(
            ("bash", "-c", meant),
            cwd=folder / "repository",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        seconds[line] = round(time.monotonic() - began, 1)
        print(f"$ {line}   ({seconds[line]} s)\n{(done.stdout + done.stderr)[-400:]}")
        if done.returncode:
            sys.exit(f"ended with {done.returncode}")
    return seconds


if __name__ == "__main__":
    main()
