"""`agora serve` as a process, before an upstream that streams slowly, all on loopback."""

import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("prometheus_client", reason="the extra gateway is not installed")

from agora.cli.group import agora
from agora.cli.serve import read_again
from agora.gateway.config import parse_config
from agora.gateway.watching.snapshot import read_metrics

EXAMPLE = Path(__file__).parents[2] / "examples" / "gateway.toml"
CANARY = "sk-canary-7f3a9c1e5b2d8f60"
PLAIN_CANARY = "Zq7Kp2Xw9Lm4Rt6Yv1Bn3Cd5"
END = threading.Event()
"""Lets the streams that are open come to their end."""
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Upstream(BaseHTTPRequestHandler):
    """Answers a chat request with a stream that ends when it is told, anything else at once."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._say(200, b'{"data":[]}')

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not body.get("stream"):
            self._say(200, b'{"usage":{"prompt_tokens":5,"completion_tokens":1}}')
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for at in range(10):
            self._chunk(b'data: {"n":%d}\n\n' % at)
        END.wait(60)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """Give the address of a running upstream."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


@dataclass
class Gateway:
    """A gateway that runs as a process of its own."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        return ask(urllib.request.Request(self.url + path, headers=headers))  # noqa: S310

    def post(self, path: str, body: object, **headers: str) -> tuple[int, bytes]:
        data = json.dumps(body).encode()
        headers = {"content-type": "application/json", **headers}
        return ask(urllib.request.Request(self.url + path, data, headers))  # noqa: S310

    def total(self, name: str, **labels: str) -> float:
        return read_metrics(self.get("/metrics")[1].decode()).total(name, **labels)


def ask(request: urllib.request.Request) -> tuple[int, bytes]:
    try:
        with _direct.open(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@contextmanager
def running(folder: Path, upstream: str, *arguments: str, more: str = "") -> Iterator[Gateway]:
    """Run a gateway until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "gateway.toml"
    config.write_text(f'[[upstreams]]\nbase_url = "{upstream}"\nformats = ["openai"]\n{more}')
    log = folder / "log"
    command = [sys.executable, "-m", "agora.cli", "serve", str(config), "--port", str(port)]
    with log.open("wb") as sink:
        process = subprocess.Popen([*command, *arguments], stderr=sink, stdout=sink)
    gateway = Gateway(process, f"http://127.0.0.1:{port}", log)
    try:
        wait_until_ready(gateway)
        yield gateway
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_ready(gateway: Gateway) -> None:
    deadline = time.monotonic() + 60
    while not _ready(gateway):
        assert gateway.process.poll() is None, gateway.log.read_text()
        assert time.monotonic() < deadline, gateway.log.read_text()
        time.sleep(0.1)


def _ready(gateway: Gateway) -> bool:
    try:
        return gateway.get("/readyz")[0] == 200
    except OSError:
        return False


SHORT = "[limits]\nsettle_seconds = 1\ndrain_seconds = 20\n"


def test_three_lines_serve_and_the_bytes_of_the_answer_come_through(
    tmp_path: Path, upstream: str
) -> None:
    with running(tmp_path, upstream, more=SHORT) as gateway:
        assert gateway.get("/livez")[0] == 200
        status, body = gateway.post("/v1/chat/completions", {"model": "gpt-5", "messages": []})
        assert (status, body) == (200, b'{"usage":{"prompt_tokens":5,"completion_tokens":1}}')
        key = {"authorization": "Bearer k"}
        assert gateway.get("/v1/models", **key)[1] == b'{"data":[]}'
        assert gateway.total("agora_requests_total", route="chat") == 1
        assert gateway.total("agora_usage_tokens_total", kind="fresh") == 5
        assert gateway.get("/metrics", host="elsewhere.test")[0] == 421
        watched = CliRunner().invoke(agora, ["top", gateway.url, "--once"])
    greeting = gateway.log.read_text().splitlines()[0]

    assert watched.exit_code == 0
    assert "chat" in watched.output
    assert greeting == f"OPENAI_BASE_URL={gateway.url}/v1"


def test_at_sigterm_readiness_goes_first_open_streams_end_and_then_the_process(
    tmp_path: Path, upstream: str
) -> None:
    END.clear()
    with running(tmp_path, upstream, more=SHORT.replace("= 1", "= 5")) as gateway:
        answers: list[tuple[int, bytes]] = []
        body = {"model": "gpt-5", "messages": [], "stream": True}
        streams = [
            threading.Thread(
                target=lambda: answers.append(gateway.post("/v1/chat/completions", body))
            )
            for _ in range(5)
        ]
        for stream in streams:
            stream.start()
        deadline = time.monotonic() + 30
        while gateway.total("agora_open_requests") < 5:
            assert time.monotonic() < deadline
        gateway.process.send_signal(signal.SIGTERM)
        sent = time.monotonic()
        while gateway.get("/readyz")[0] != 503:
            assert time.monotonic() - sent < 5
        assert gateway.get("/livez")[0] == 200
        END.set()
        for stream in streams:
            stream.join()
        gateway.process.wait(20)

    assert [status for status, _ in answers] == [200] * 5
    assert all(text.endswith(b"data: [DONE]\n\n") for _, text in answers)
    assert "Traceback" not in gateway.log.read_text()


def test_several_processes_take_from_one_port_and_count_together(
    tmp_path: Path, upstream: str
) -> None:
    with running(tmp_path, upstream, "--workers", "2", more=SHORT) as gateway:
        for _ in range(20):
            gateway.get("/v1/models", authorization="Bearer k")

        assert gateway.total("agora_requests_total", route="other") == 20
        gateway.process.terminate()
        assert gateway.process.wait(30) == 0


def test_no_canary_gets_into_logs_or_metrics_at_debug(tmp_path: Path, upstream: str) -> None:
    with running(tmp_path, upstream, more=SHORT + '[log]\nlevel = "debug"\n') as gateway:
        for canary in (CANARY, PLAIN_CANARY):
            keys = {"authorization": f"Bearer {canary}", "x-api-key": canary, "cookie": canary}
            body = {"model": "gpt-5", "messages": [{"role": "user", "content": canary}]}
            gateway.post(f"/v1/chat/completions?key={canary}", body, **keys)
            gateway.post("/v1/chat/completions", {"model": canary, "messages": canary}, **keys)
            gateway.get(f"/v1/files/{canary}", **{"user-agent": canary, **keys})
            gateway.get(f"/v1/../{canary}", **keys)
        metrics = gateway.get("/metrics")[1].decode()
    said = gateway.log.read_text()

    assert said.count('"message":"request"') >= 6
    for canary in (CANARY, PLAIN_CANARY):
        assert canary not in said
        assert canary not in metrics


def test_a_port_that_is_taken_is_said_and_ends_the_process(tmp_path: Path, upstream: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = tmp_path / "gateway.toml"
        config.write_text(f'[[upstreams]]\nbase_url = "{upstream}"\nformats = ["openai"]\n')
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "agora.cli", "serve", str(config), "--port", port],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode != 0
    assert done.stderr == f"Error: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_check_config_says_what_a_file_means_and_starts_nothing(tmp_path: Path) -> None:
    config = tmp_path / "g.toml"
    config.write_text(
        '[[upstreams]]\nbase_url = "http://vllm.test/v1"\nformats = ["openai"]\n'
        'models = ["house-model", "gpt-*"]\n'
        '[[upstreams]]\nbase_url = "https://api.anthropic.com"\nformats = ["anthropic"]\n'
        'prices = "claude-opus-5"\n[recall]\nenabled = true\n'
    )
    result = CliRunner().invoke(agora, ["serve", str(config), "--check-config", "--port", "9000"])

    assert result.exit_code == 0
    for needle in (
        "listens on 127.0.0.1:9000",
        "upstream vllm.test: http://vllm.test/v1 (openai; models house-model, gpt-*)",
        "house-model has no price sheet",
        "prices of claude-opus-5: $5 per million",
        "stops compressing for a tenant whose net saving over 1,000 requests is negative",
        "offers recall: yes",
        "sends no telemetry",
        "note: upstream 'vllm.test' is reached over plain http",
    ):
        assert needle in result.output


def test_check_config_names_every_problem_and_fails(tmp_path: Path) -> None:
    config = tmp_path / "g.toml"
    config.write_text('[[upstreams]]\nbase_url = "x"\n[limits]\ndepth = 1\n')
    result = CliRunner().invoke(agora, ["serve", str(config), "--check-config"])

    assert result.exit_code == 1
    for key in ("upstreams[0].base_url", "upstreams[0].formats", "limits.depth"):
        assert f"{config}: {key}" in result.output


def test_without_a_file_it_is_said_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(agora, ["serve"])

    assert result.exit_code == 1
    told, _, lines = result.output.partition(", for example\n")
    assert "gateway.toml: no such file; three lines are enough" in told
    assert parse_config(lines).upstreams[0].base_url == "https://api.openai.com/v1"


EXTRAS: dict[str, tuple[str, ...]] = {
    "gateway": ("uvicorn", "prometheus_client", "aiohttp", "msgspec", "httptools", "uvloop"),
    "telemetry": ("opentelemetry",),
}
THREE_LINES = '[[upstreams]]\nbase_url = "http://127.0.0.1:9/v1"\nformats = ["openai"]\n'


def without(extra: str, folder: Path) -> dict[str, str]:
    """Return an environment in which the packages of an extra cannot be imported."""
    hidden = folder / "hidden"
    hidden.mkdir()
    for name in EXTRAS[extra]:
        (hidden / f"{name}.py").write_text("raise ImportError\n")
    paths = [str(hidden), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "agora.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_the_extra_help_is_there_and_one_sentence_names_it(tmp_path: Path) -> None:
    bare = without("gateway", tmp_path)
    config = tmp_path / "gateway.toml"
    config.write_text(THREE_LINES)

    for command in ("serve", "top"):
        helped = run(bare, command, "--help")
        assert helped.returncode == 0
        assert helped.stdout.startswith(f"Usage: agora {command}")
    needs = "needs an extra: pip install 'agora-context[gateway]'\n"
    started = run(bare, "serve", str(config), "--port", "0")
    assert (started.returncode, started.stderr) == (1, f"Error: agora serve {needs}")
    checked = run(bare, "serve", str(config), "--check-config")
    assert checked.returncode == 1
    assert checked.stderr == f"Error: the gateway would not start: agora serve {needs}"
    watched = run(bare, "top", "--once")
    assert (watched.returncode, watched.stderr) == (1, f"Error: agora top {needs}")


def test_the_example_starts_with_what_the_guide_installs(tmp_path: Path) -> None:
    bare = without("telemetry", tmp_path)
    checked = run(bare, "serve", str(EXAMPLE), "--check-config")
    assert checked.returncode == 0, checked.stderr

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "log"
    command = [sys.executable, "-m", "agora.cli", "serve", str(EXAMPLE), "--port", str(port)]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stderr=sink, stdout=sink, env=bare)
    wait_until_ready(Gateway(process, f"http://127.0.0.1:{port}", log))
    process.send_signal(signal.SIGINT)

    assert process.wait(30) == 130
    assert "%" not in log.read_text().replace("100%", "")


def test_what_would_fail_at_the_start_is_told_when_a_file_is_checked(tmp_path: Path) -> None:
    bare = without("telemetry", tmp_path)
    config = tmp_path / "gateway.toml"
    config.write_text(f'{THREE_LINES}[telemetry]\nendpoint = "http://127.0.0.1:4318"\n')
    checked = run(bare, "serve", str(config), "--check-config")
    started = run(bare, "serve", str(config), "--port", "0")

    assert checked.returncode == 1
    assert "the gateway would not start" in checked.stderr
    assert "agora-context[telemetry]" in checked.stderr
    assert started.returncode != 0


def test_a_port_in_use_is_a_note_when_a_file_is_checked(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(THREE_LINES)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(agora, ["serve", str(config), "--check-config", "--port", port])

    assert result.exit_code == 0
    assert f"note: cannot listen on 127.0.0.1:{port}: Address already in use" in result.output


def reloaded(gateway: Gateway, times: int) -> None:
    """Ask for the configuration to be read again, and wait until it was."""
    gateway.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while gateway.total("agora_reloads_total") < times:
        assert gateway.process.poll() is None, gateway.log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_at_sighup_the_file_is_read_again_and_one_with_mistakes_changes_nothing(
    tmp_path: Path, upstream: str
) -> None:
    config = tmp_path / "gateway.toml"
    with running(tmp_path, upstream, more=SHORT) as gateway:
        good = config.read_text()
        body = {"model": "gpt-5", "messages": []}
        pid = gateway.process.pid
        assert gateway.post("/v1/chat/completions", body)[0] == 200

        config.write_text(good.replace("[limits]", "[limits]\ndepht = 3"))
        reloaded(gateway, 1)
        assert gateway.total("agora_config_stale") == 1
        assert gateway.post("/v1/chat/completions", body)[0] == 200

        changed = good.replace("settle_seconds = 1", "settle_seconds = 2\nbody_bytes = 1_024")
        config.write_text(changed + "[listen]\nport = 1\nhosts = ['127.0.0.1', 'renamed.test']\n")
        reloaded(gateway, 2)
        assert gateway.total("agora_config_stale") == 0
        assert gateway.post("/v1/chat/completions", body, pad="x" * 10)[0] == 200
        large = {"model": "gpt-5", "messages": ["x" * 2_000]}
        assert gateway.post("/v1/chat/completions", large)[0] == 413
        assert gateway.get("/metrics", host="renamed.test")[0] == 200
        assert gateway.get("/metrics", host="localhost")[0] == 421
        # What was counted stays: it is the same process, and the same gateway.
        assert gateway.total("agora_requests_total", route="chat") == 4
        assert gateway.process.pid == pid
        assert gateway.process.poll() is None
    said = [json.loads(line) for line in gateway.log.read_text().splitlines() if line[0] == "{"]

    [bad] = [line for line in said if line["level"] == "error"]
    assert bad["message"] == (
        "the configuration is unchanged: gateway.toml: limits.depht is not a setting "
        "(did you mean depth?)"
    )
    says = [line["message"] for line in said]
    [audit] = [line for line in says if line.startswith("configuration reloaded")]
    changed = "configuration reloaded; changed: listen.hosts, limits.body_bytes; from (.+) to"
    was = re.match(changed, audit)
    assert was is not None
    assert f"started with configuration {was[1]}" in says
    assert not audit.endswith(was[1])
    assert "changed in the file, applied at the next restart: limits.settle_seconds" in says


def test_what_waits_for_a_restart_is_told_and_a_port_of_the_command_line_stays(
    tmp_path: Path,
) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(THREE_LINES + "[listen]\nport = 9000\n")

    assert read_again(config, listening=8484, port_given=True).listen_port == 8484
    assert read_again(config, listening=8484, port_given=False).listen_port == 9000
    config.write_text(THREE_LINES + "[listen]\nport = 0\n")
    assert read_again(config, listening=8484, port_given=False).listen_port == 8484


def test_at_sighup_all_of_several_processes_read_the_file_again(
    tmp_path: Path, upstream: str
) -> None:
    config = tmp_path / "gateway.toml"
    with running(tmp_path, upstream, "--workers", "2", more=SHORT) as gateway:
        deadline = time.monotonic() + 60
        while gateway.log.read_text().count("Started server process") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        config.write_text(config.read_text() + "body_bytes = 1_024\n")
        reloaded(gateway, 2)
        large = {"model": "gpt-5", "messages": ["x" * 2_000]}
        answers = {gateway.post("/v1/chat/completions", large)[0] for _ in range(10)}
        gateway.process.send_signal(signal.SIGINT)

        assert gateway.process.wait(30) == 130
    assert answers == {413}
    assert "Traceback" not in gateway.log.read_text()


def test_a_terminal_that_hangs_up_ends_the_gateway_and_does_not_reload_it(
    tmp_path: Path,
) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(THREE_LINES + SHORT)
    master, slave = os.openpty()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "agora.cli", "serve", str(config), "--port", str(port)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    # What it says is read, so that it never waits for the terminal.
    reader = threading.Thread(target=_drain, args=(master, 1.5), daemon=True)
    wait_until_ready(Gateway(process, f"http://127.0.0.1:{port}", config))
    reader.start()
    reader.join()
    os.close(master)

    assert process.wait(30) is not None


def _drain(descriptor: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ready, _, _ = select.select([descriptor], [], [], 0.1)
        if ready:
            os.read(descriptor, 65_536)
