"""What `agora wrap` needs and would do, found out without asking anybody outside."""

import http.server
import importlib.util
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
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import agora
from agora.core.prices import shipped_sheets
from agora.gateway.config import ConfigError
from agora.wrapping.agents import AGENTS, Agent
from agora.wrapping.plan import Plan, Seen, Upstream, around_proxies
from agora.wrapping.settings import configuration, find, places, read, tables_for

State = Literal["ok", "note", "problem"]
_PACKAGES = ("aiohttp", "msgspec", "prometheus_client", "uvicorn", "uvloop", "httptools")
_OLD_DAYS = 180
_VERSION = re.compile(r"\d+\.\d+(?:[.+-]?\w+)*")
_VERSION_SECONDS = 15
_PORT = 8484
_STEPS = 24


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: State
    found: str
    remedy: str = ""
    changes: tuple[str, ...] = ()
    """What would be changed for an agent."""


def examine(
    environment: Mapping[str, str],
    home: Path,
    folder: Path,
    settings: Path | None = None,
    *,
    agent: str | None = None,
    ask: bool = False,
) -> Iterator[Finding]:
    """Look at everything, and yield what was found; of the agents at the one named, or at all."""
    yield Finding("agora", "ok", f"{agora.__version__} on Python {platform.python_version()}")
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    yield _packages(missing)
    tables, finding = _settings(settings, folder, home, environment)
    yield finding
    yield _prices(datetime.now(tz=UTC).date())
    yield from _environment(environment)
    if not missing and tables is not None:
        yield _through(tables, environment)
    yield _fixed_port()
    known: set[Upstream] = set()
    for one in AGENTS.values() if agent is None else (AGENTS[agent],):
        seen = Seen(environment, home, folder, "http://127.0.0.1:PORT", Path(tempfile.gettempdir()))
        plan = one.plan(seen)
        found = _agent(one, plan, environment)
        there = found.state != "note"
        # Nobody needs all of them; one that was asked for has to be there.
        yield found if there or agent is None else replace(found, state="problem")
        if there:
            known.update(plan.upstreams)
    if ask:
        yield from map(_asked, sorted({one.url for one in known}))


def _packages(missing: list[str]) -> Finding:
    if missing:
        names = ", ".join(missing)
        return Finding(
            "packages", "problem", f"{names} missing", "pip install 'agora-context[wrap]'"
        )
    return Finding("packages", "ok", "everything that the gateway needs is installed")


def _settings(
    given: Path | None, folder: Path, home: Path, environment: Mapping[str, str]
) -> tuple[dict[str, Any] | None, Finding]:
    path = given or find(folder, home, environment)
    where = " or ".join(map(str, places(folder, home, environment)))
    try:
        tables = read(path)
        plan = Plan(upstreams=(Upstream("openai", "http://127.0.0.1:1/v1", chosen=True),))
        configuration(tables_for(tables, plan, environment), str(path))
    except ConfigError as error:
        return None, Finding("settings", "problem", str(error), "correct the file")
    if path is None:
        return tables, Finding("settings", "ok", f"defaults; to change them, write {where}")
    return tables, Finding("settings", "ok", str(path))


def _prices(today: date) -> Finding:
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
        changes = (f"NO_PROXY={around['NO_PROXY']}",)
        yield Finding(
            "proxy", "ok", "the gateway uses yours; the agent reaches the gateway directly", "",
            changes,
        )  # fmt: skip
    for name, value in environment.items():
        if name.lower().endswith("_proxy") and value.startswith("socks"):
            yield Finding(
                "proxy",
                "problem",
                f"{name} is a SOCKS proxy, which the gateway cannot use",
                "name an HTTP proxy, or set `proxy` in [[upstreams]] of your settings",
            )
    for name in sorted(environment):
        if name.endswith(("_BASE_URL", "_API_BASE")) and "127.0.0.1" in environment[name]:
            yield Finding(
                "address",
                "note",
                f"{name} points to this machine: the gateway will send requests there",
                f"unset {name} if it is left over from another proxy",
            )


def _through(tables: dict[str, Any], environment: Mapping[str, str]) -> Finding:
    """Send a long made-up conversation to a fake provider through a gateway on a free port."""
    from agora.wrapping.gateway import Gateway, NotStartedError

    sent = json.dumps(_conversation(), separators=(",", ":")).encode()
    with _fake_provider() as (url, arrived), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = Plan(upstreams=(Upstream("openai", f"{url}/v1", chosen=True),))
        own = tables_for({**tables, "upstreams": []}, plan, {})
        try:
            with Gateway(own, folder, environment, folder / "log") as gateway:
                began = time.monotonic()
                gateway.start()
                started = time.monotonic() - began
                began = time.monotonic()
                status = _post(f"{gateway.url}/v1/chat/completions", sent)
                took = time.monotonic() - began
        except (NotStartedError, OSError) as error:
            return Finding(
                "gateway",
                "problem",
                f"does not start: {error}",
                "pip install --force-reinstall 'agora-context[wrap]'; allow connections to "
                "127.0.0.1",
            )
    if status != 200 or len(arrived) != 1:
        remedy = "look in the gateway's log, which agora wrap --log FILE keeps"
        return Finding("gateway", "problem", f"a request was answered with {status}", remedy)
    what = "unchanged" if arrived[0] == sent else f"shortened to {len(arrived[0]):,}"
    return Finding(
        "gateway",
        "ok",
        f"started in {started:.1f} s; a test request of {len(sent):,} bytes came through {what} "
        f"in {took * 1e3:.0f} ms",
    )


def _fixed_port() -> Finding:
    from socket import create_server

    try:
        create_server(("127.0.0.1", _PORT)).close()
    except OSError:
        remedy = "agora wrap does not need it; agora serve --port uses another"
        return Finding("port", "note", f"{_PORT}, the default of agora serve, is in use", remedy)
    return Finding("port", "ok", f"{_PORT}, the default of agora serve, is free")


def _agent(agent: Agent, plan: Plan, environment: Mapping[str, str]) -> Finding:
    path = next(
        (p for name in agent.programs if (p := shutil.which(name, path=environment.get("PATH")))),
        None,
    )
    if path is None:
        return Finding(agent.title, "note", "not found", f"install it with: {agent.install}")
    version = _version(path, environment)
    if version is None:
        found = f"{path} does not print its version"
        return Finding(agent.title, "problem", found, f"try {path} --version")
    changes = [f"{name}={value}" for name, value in plan.environment.items()]
    if plan.arguments:
        changes.append(" ".join((agent.programs[0], *plan.arguments, "...")))
    changes += [f"requests go to {one.url} ({one.format})" for one in plan.upstreams]
    changes += [f"note: {note}" for note in plan.notes if plan.upstreams]
    if not plan.upstreams:
        why = "; ".join(plan.notes)
        return Finding(agent.title, "problem", f"{version}, runs without a gateway: {why}",
                       "log in with an API key, or use agora serve", tuple(changes))  # fmt: skip
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


def _asked(url: str) -> Finding:
    """Ask an upstream for its base address; any answer will do."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - http, by the plan
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    except OSError as error:
        remedy = "check the network, a proxy (HTTPS_PROXY) and certificates (SSL_CERT_FILE)"
        return Finding(url, "problem", f"no answer: {error}", remedy)
    return Finding(url, "ok", f"answers ({status}) in {(time.monotonic() - began) * 1e3:.0f} ms")


def _conversation() -> dict[str, Any]:
    """Return a request that is long enough to be edited."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read all files."}]
    for n in range(_STEPS):
        function = {"name": "read", "arguments": json.dumps({"path": f"file{n}.py"})}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = f"def made_up_{n}(): return {n}\n" * 120
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return {"model": "gpt-4.1", "messages": messages}


@contextmanager
def _fake_provider() -> Iterator[tuple[str, list[bytes]]]:
    """Run a provider on this machine that answers everything alike and keeps what it got."""
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
    # No key: none is needed here, and none of the user's may be used.
    headers = {"content-type": "application/json", "authorization": "Bearer made-up"}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - loopback
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
