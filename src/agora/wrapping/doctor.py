"""Check the needs and effects of `agora wrap`, without network access."""

import http.server
import json
import platform
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import agora
from agora.core.prices import shipped_sheets
from agora.errors import install_command
from agora.formats import format_named
from agora.service import Settings, SettingsError
from agora.wrapping.agents import AGENTS, Agent
from agora.wrapping.keeper import Keeper, NotStartedError
from agora.wrapping.plan import Plan, Seen, around_proxies
from agora.wrapping.settings import find, places, settings_for

State = Literal["ok", "note", "problem"]
_OLD_DAYS = 180
_VERSION = re.compile(r"\d+\.\d+(?:[.+-]?\w+)*")
_VERSION_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    state: State
    found: str
    remedy: str = ""
    changes: tuple[str, ...] = ()
    """The changes that `agora wrap` would make for an agent."""


def examine(
    environment: Mapping[str, str],
    home: Path,
    folder: Path,
    settings: Path | None = None,
    *,
    agent: str | None = None,
) -> Iterator[Finding]:
    """Run all checks and yield findings, for every installed agent or for the named one."""
    yield Finding("agora", "ok", f"{agora.__version__} on Python {platform.python_version()}")
    loaded, finding = _settings(settings, folder, home, environment)
    yield finding
    yield age_of_prices(datetime.now(tz=UTC).date())
    yield from _environment(environment)
    if loaded is not None:
        yield _through(loaded, environment)
    upstreams = {str(name): url for name, url in loaded.upstreams.items()} if loaded else {}
    seen = Seen(
        environment,
        home,
        folder,
        "http://127.0.0.1:PORT",
        Path(tempfile.gettempdir()),
        upstreams=upstreams,
    )
    installed = 0
    for kind in AGENTS.values() if agent is None else (AGENTS[agent],):
        path = _path(kind, environment)
        if path is not None:
            installed += 1
            yield _agent(kind, kind.plan(seen), path, environment)
        elif agent is not None:
            remedy = f"install it with: {kind.install}"
            yield Finding(kind.title, "problem", "not found", remedy)
    if agent is None and not installed:
        programs = ", ".join(name for kind in AGENTS.values() for name in kind.programs)
        yield Finding("agents", "note", f"none of {programs} is on the PATH", "install one")


def _settings(
    path: Path | None, folder: Path, home: Path, environment: Mapping[str, str]
) -> tuple[Settings | None, Finding]:
    path = path or find(folder, home, environment)
    try:
        loaded = settings_for(path, shadow=False, compression={})
    except SettingsError as error:
        return None, Finding("settings", "problem", str(error), "correct the file")
    where = " or ".join(map(str, places(folder, home, environment)))
    words = str(path) if path else f"defaults; to change them, write {where}"
    return loaded, Finding("settings", "ok", words)


def age_of_prices(today: date) -> Finding:
    """Return the age of the price sheets. A negative age means that the clock is wrong."""
    dates = sorted(sheet.date for sheet in shipped_sheets().values() if sheet.date)
    if not dates:
        return Finding("prices", "note", "the price sheets have no date", "upgrade agora-context")
    newest = date.fromisoformat(dates[-1])
    age = (today - newest).days
    found = f"sheets of {newest.isoformat()}, {age} days old"
    if age < 0:
        return Finding("prices", "problem", found, "set this machine's clock")
    if age > _OLD_DAYS:
        remedy = "upgrade agora-context, or write [prices.NAME] in your settings"
        return Finding("prices", "note", found, remedy)
    return Finding("prices", "ok", found)


def _environment(environment: Mapping[str, str]) -> Iterator[Finding]:
    if around := around_proxies(environment):
        words = "AGORA's requests go through your HTTP proxy; the agent reaches AGORA directly"
        yield Finding("proxy", "ok", words, "", (f"NO_PROXY={around['NO_PROXY']}",))
    for name, value in sorted(environment.items()):
        if name.lower().endswith("_proxy") and value.startswith("socks"):
            words = f"{name} is a SOCKS proxy, which AGORA cannot use"
            yield Finding("proxy", "problem", words, f"name an HTTP proxy in {name}")
        if name.endswith(("_BASE_URL", "_API_BASE")) and "127.0.0.1" in value:
            words = f"{name} points to this machine: AGORA will send requests there"
            remedy = f"unset {name} if it is left over from another proxy"
            yield Finding("address", "note", words, remedy)


def _through(settings: Settings, environment: Mapping[str, str]) -> Finding:
    """Send a long made-up conversation to a fake provider through a proxy on a free port."""
    sent = json.dumps(conversation(), separators=(",", ":")).encode()
    with _fake_provider() as (url, arrived), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        direct = {name: v for name, v in environment.items() if not name.lower().endswith("_proxy")}
        try:
            with Keeper(settings, folder, direct, folder / "log") as keeper:
                began = time.monotonic()
                keeper.start([f"{url}/v1"])
                started = time.monotonic() - began
                status = _post(f"{keeper.url}/0/chat/completions", sent)
                took = time.monotonic() - began - started
        except (NotStartedError, OSError) as error:
            remedy = f"allow connections to 127.0.0.1, and install again: {install_command('wrap')}"
            return Finding("test", "problem", f"no proxy: {error}", remedy)
    if status != 200 or len(arrived) != 1:
        remedy = "look in the log that agora wrap --log FILE keeps"
        return Finding("test", "problem", f"a request was answered with {status}", remedy)
    what = "unchanged" if arrived[0] == sent else f"shortened to {len(arrived[0]):,}"
    words = f"the proxy started in {started:.1f} s; a request of {len(sent):,} bytes to a fake "
    return Finding("test", "ok", f"{words}provider came through {what} in {took:.1f} s")


def _path(agent: Agent, environment: Mapping[str, str]) -> str | None:
    """Return the path of an agent's program."""
    paths = (shutil.which(name, path=environment.get("PATH")) for name in agent.programs)
    return next((path for path in paths if path), None)


def _agent(agent: Agent, plan: Plan, path: str, environment: Mapping[str, str]) -> Finding:
    version = _version(path, environment)
    if version is None:
        words = f"{path} does not print its version"
        return Finding(agent.title, "problem", words, f"try {path} --version")
    if not plan.upstreams:
        words = f"{version}, runs without AGORA: {'; '.join(plan.notes)}"
        return Finding(agent.title, "problem", words, "log in with an API key")
    changes = [f"{name}={value}" for name, value in plan.environment.items()]
    if plan.arguments:
        changes.append(" ".join((agent.programs[0], *plan.arguments, "...")))
    changes += [f"requests to .../{n} go to {url}" for n, url in enumerate(plan.upstreams)]
    changes += [f"note: {note}" for note in plan.notes]
    return Finding(agent.title, "ok", version, "", tuple(changes))


def _version(path: str, environment: Mapping[str, str]) -> str | None:
    try:
        said = subprocess.run(  # noqa: S603 - the user's own agent
            (path, "--version"),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said.stdout + said.stderr)
    return found[0] if found else None


def conversation(
    steps: int = 24, lines: int = 120, first: str = "Read all files.", format: str = "openai"
) -> dict[str, Any]:
    """Return a made-up request, by default long enough to be shortened."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": first}]
    for n in range(steps):
        text = f"def made_up_{n}(): return {n}\n" * lines
        path = {"path": f"file{n}.py"}
        messages += format_named(format).step_messages(f"c{n}", "read", path, text)
    return {"model": "gpt-4.1", "messages": messages}


@contextmanager
def _fake_provider() -> Iterator[tuple[str, list[bytes]]]:
    """Run a provider on this machine that gives one fixed answer and stores its requests."""
    arrived: list[bytes] = []

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append(self.rfile.read(int(self.headers.get("content-length", 0))))
            said = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"}}]}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", arrived
    finally:
        server.shutdown()
        server.server_close()


def _post(url: str, body: bytes) -> int:
    # No key is needed here, and the user's own must not be used.
    headers = {"content-type": "application/json", "authorization": "Bearer made-up"}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - loopback
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
