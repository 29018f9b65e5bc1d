"""Records `wrap.cast`: Claude Code in `agora wrap claude`, in a terminal, before a fake provider.

    python docs/images/record_wrap.py AGENTS    a folder; Claude Code is installed there if missing

The agent is the real one, with a home of its own and a made-up key; the provider is the project's
own stand-in on loopback, which scripts the answers and bills by an exact prefix cache. Keys are
typed when the screen shows what they answer (`pip install pyte`). The recording is an asciicast
(version 2), and `make_recording.py` draws it.
"""

import codecs
import fcntl
import json
import os
import pty
import select
import shlex
import struct
import sys
import tempfile
import termios
import time
from contextlib import suppress
from pathlib import Path

import pyte

sys.path.insert(0, str(Path(__file__).parents[2]))

from harness.agents.drivers import AGENTS, ANTHROPIC_KEY, Place
from harness.agents.install import install, programs
from harness.agents.repository import make_repository
from harness.agents.session import free_ports, process, wait_for

HERE = Path(__file__).parent
COLUMNS, ROWS = 100, 18
STEPS = 45
MODEL = "claude-sonnet-5"
ASKED = "Read every module of pkg and tell me what it does"
MOST_SECONDS = 240
AGORA = "from agora.cli import main; main()"


def main() -> None:
    """Record one session."""
    cache = Path(sys.argv[1]).resolve()
    agent = AGENTS["claude"]
    install((agent.package,), cache)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = folder / "home"
        repository = home / "shop"
        repository.mkdir(parents=True)
        make_repository(repository)
        [port] = free_ports(1)
        command = (
            *(sys.executable, "-m", "harness.agents.stage", "--record", str(folder / "record")),
            *("--provider", str(port), "--repository", ".", "--steps", str(STEPS)),
        )
        os.chdir(repository)  # The files that the model asks for are named from here.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        with process(command, folder / "provider.log"):
            wait_for(port)
            place = Place(home, repository, f"http://127.0.0.1:{port}", folder / "bin")
            prepare(place)
            paths = (place.programs, *programs(agent.package, cache), "/usr/bin", "/bin")
            known = dict(agent.launch(place).environment) | {
                "PATH": os.pathsep.join(map(str, paths)),
                "HOME": str(home),
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
                "PS1": "$ ",
                "LANG": "C.UTF-8",
            }
            events = record(place, known)
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "agora wrap claude"}
    lines = [json.dumps(head), *(json.dumps(event, ensure_ascii=False) for event in events)]
    (HERE / "wrap.cast").write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(place: Place) -> None:
    """Write a home in which Claude Code asks nothing, and `agora` as a user has it."""
    known = {
        "hasCompletedOnboarding": True,
        "hasSeenAutoDefaultNudge": True,
        "hasSeenAutoDefaultNotice": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [ANTHROPIC_KEY[-20:]], "rejected": []},
        "projects": {str(place.repository): {"hasTrustDialogAccepted": True}},
    }
    place.write(".claude.json", json.dumps(known))
    line = {"type": "command", "command": "agora statusline"}
    allowed = {"allow": ["Read", "Bash", "Grep", "Glob"], "defaultMode": "acceptEdits"}
    settings = {"model": MODEL, "statusLine": line, "permissions": allowed}
    place.write(".claude/settings.json", json.dumps(settings))
    place.programs.mkdir()
    agora = place.programs / "agora"
    path = shlex.quote(os.environ["PYTHONPATH"])
    words = shlex.join((sys.executable, "-P", "-c", AGORA))
    agora.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {words} "$@"\n', encoding="utf-8")
    agora.chmod(0o755)


def record(place: Place, known: dict[str, str]) -> list[tuple[float, str, str]]:
    """Return what a shell shows in which the command is typed, with its times."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place.repository)
        os.execve("/bin/sh", ["sh"], known)  # noqa: S606 - a shell is what is recorded
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    started, events = time.monotonic(), []
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    # What is on the screen, how long it has to be still, and what is typed then.
    script = [
        ("$ ", 0.6, "agora wrap claude\r"),
        ("agora: on", 2.0, ASKED),
        ("what it does", 1.0, "\r"),
        ("the work is done", 3.0, "/exit"),
        ("/exit", 1.5, "\r"),
        ("agora:", 2.5, ""),
    ]
    last, typed = time.monotonic(), ""
    while time.monotonic() < started + MOST_SECONDS:
        ready, _, _ = select.select([terminal], [], [], 0.04)
        now = time.monotonic()
        if ready:
            try:
                shown = decoder.decode(os.read(terminal, 65_536))
            except OSError:
                break
            if shown:
                events.append((round(now - started, 3), "o", shown))
                stream.feed(shown)
                last = now
        elif typed:
            events.append((round(now - started, 3), "i", typed[0]))
            os.write(terminal, typed[0].encode())
            typed = typed[1:]
        elif not script:
            break
        elif now - last > script[0][1] and any(script[0][0] in line for line in screen.display):
            _, _, typed = script.pop(0)
    with suppress(OSError):
        os.close(terminal)
    return events


if __name__ == "__main__":
    main()
