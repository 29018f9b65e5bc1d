"""A gateway that others can reach: tokens, what is behind them, and TLS."""

import http.client
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora.cli.group import agora
from agora.cli.serve import read_again
from agora.cli.top import fetch
from agora.gateway.config import Client, Config, ConfigError, parse_config
from harness.gateway.loopback import config_for, free_port, gateway

UPSTREAM = '[[upstreams]]\nbase_url = "http://127.0.0.1:9"\nformats = ["openai"]\n'
TOKEN = "a-token-of-the-gateway"  # noqa: S105 - made up
CLIENTS = (Client(name="team", sha256=sha256(TOKEN.encode()).hexdigest()),)


@pytest.mark.parametrize(
    ("listen", "starts"),
    [
        ("", True),
        ('host = "127.0.0.1"', True),
        ('host = "::1"', True),
        ('host = "0.0.0.0"', False),
        ('host = "::"', False),
        ('host = "10.0.0.7"', False),
        ('host = "0.0.0.0"\nopen = true', True),
    ],
)
def test_where_others_can_reach_it_a_gateway_without_tokens_has_to_be_wanted(
    tmp_path: Path, listen: str, starts: bool
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f"[listen]\nport = 0\n{listen}\n{UPSTREAM}")
    token = f'[[clients]]\nname = "a"\nsha256 = "{CLIENTS[0].sha256}"\n'
    checked = CliRunner().invoke(agora, ["serve", str(file), "--check-config"])

    assert (checked.exit_code == 0) == starts
    assert not parse_config(file.read_text() + token).start_problems()
    if not starts:
        assert "listen.open = true" in checked.output
        assert CliRunner().invoke(agora, ["serve", str(file)]).exit_code == 1
        with pytest.raises(ConfigError, match="no client has a token"):
            read_again(file, listening=1, port_given=False)


def status(url: str, path: str, **headers: str) -> int:
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=20)
    method = "GET" if path == "/metrics" else "POST"
    connection.request(method, path, b"{}" if method == "POST" else None, headers)
    found = connection.getresponse().status
    connection.close()
    return found


def test_metrics_and_scores_stand_behind_the_same_door(monkeypatch: pytest.MonkeyPatch) -> None:
    with gateway(config_for("http://127.0.0.1:9", clients=CLIENTS)) as (url, _):
        for path in ("/metrics", "/v1/agora/score", "/v1/compress"):
            assert status(url, path) == 401
            assert status(url, path, Authorization="Bearer another") == 401
            assert status(url, path, Authorization=f"Bearer {TOKEN}") != 401
            assert status(url, path, **{"x-agora-token": TOKEN}) != 401
        for path in ("/livez", "/readyz"):
            with urllib.request.urlopen(url + path, timeout=20) as answer:  # noqa: S310
                assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError):
            fetch(url)
        monkeypatch.setenv("AGORA_TOKEN", TOKEN)
        assert fetch(url).samples


def test_without_tokens_metrics_are_for_whoever_may_use_the_gateway() -> None:
    with gateway(config_for("http://127.0.0.1:9")) as (url, _):
        assert status(url, "/metrics") == 200


def certificate(folder: Path, name: str) -> None:
    """Write a new certificate of this machine and its key."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def with_tls(config: Config, folder: Path) -> Config:
    files = str(folder / "cert.pem"), str(folder / "key.pem")
    return replace(config, listen_certificate=files[0], listen_key=files[1])


def named_over_tls(port: int, folder: Path) -> str:
    """Return whom the certificate names that the gateway shows, once it has answered."""
    context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=20)
    connection.connect()
    shown: Any = connection.sock.getpeercert()
    connection.request("GET", "/livez")
    assert connection.getresponse().read() == b"ok\n"
    connection.close()
    return str(dict(pair for [pair] in shown["subject"])["commonName"])


def test_clients_may_come_over_tls_and_a_certificate_is_renewed_at_sighup(tmp_path: Path) -> None:
    certificate(tmp_path, "first")
    port, file = free_port(), tmp_path / "gateway.toml"
    files = f'certificate = "{tmp_path / "cert.pem"}"\nkey = "{tmp_path / "key.pem"}"\n'
    file.write_text(f"[listen]\nport = {port}\n{files}{UPSTREAM}")
    command = [sys.executable, "-m", "agora.cli", "serve", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as running:
        try:
            assert running.stderr is not None
            assert b"OPENAI_BASE_URL=https://" in running.stderr.readline()
            until(lambda: named_over_tls(port, tmp_path) == "first")
            with pytest.raises((http.client.BadStatusLine, ConnectionError)):
                status(f"http://localhost:{port}", "/metrics")
            certificate(tmp_path, "second")
            running.send_signal(signal.SIGHUP)
            until(lambda: named_over_tls(port, tmp_path) == "second")
        finally:
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=30)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that cannot be asked for yet."""
    end = time.monotonic() + 30
    while True:
        try:
            if holds():
                return
        except OSError:
            pass
        assert time.monotonic() < end, "it does not hold in time"
        time.sleep(0.05)


def test_a_certificate_that_is_none_keeps_a_gateway_from_starting(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    (tmp_path / "key.pem").write_text("nothing")
    config = with_tls(Config(upstreams=()), tmp_path)

    [problem] = config.start_problems()
    assert "listen.certificate and listen.key" in problem
    [missing] = with_tls(Config(upstreams=()), tmp_path / "elsewhere").start_problems()
    assert "No such file" in missing
    with pytest.raises(ConfigError, match=r"listen\.key is missing"):
        parse_config(f'[listen]\ncertificate = "cert.pem"\n{UPSTREAM}')
