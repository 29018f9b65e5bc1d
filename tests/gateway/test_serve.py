"""`agora serve` as a process, before an upstream that streams slowly, all on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
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
from agora.gateway.metrics import read_metrics

CANARY = "sk-canary-7f3a9c1e5b2d8f60"
PLAIN_CANARY = "Zq7Kp2Xw9Lm4Rt6Yv1Bn3Cd5"
STREAM_SECONDS = 3.0
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Upstream(BaseHTTPRequestHandler):
    """Answers a chat request with a stream that takes a while, anything else at once."""

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
            time.sleep(STREAM_SECONDS / 10)
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
        deadline = time.monotonic() + 60
        while not _ready(gateway):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield gateway
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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
        assert gateway.get("/v1/models")[1] == b'{"data":[]}'
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
    with running(tmp_path, upstream, more=SHORT) as gateway:
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
            assert time.monotonic() - sent < 1
        assert gateway.get("/livez")[0] == 200
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
            gateway.get("/v1/models")

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
    told = gateway.log.read_text()

    assert told.count('"message":"request"') >= 6
    for canary in (CANARY, PLAIN_CANARY):
        assert canary not in told
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
        "stands down for one whose net saving over 1,000 requests is negative",
        "offers recall: yes",
        "sends spans to nobody",
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
    assert "gateway.toml: there is no such file; three lines are enough" in result.output


def test_without_the_extra_one_sentence_names_it(tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ImportError\n")
    done = subprocess.run(
        [sys.executable, "-m", "agora.cli", "serve"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == (
        "Error: agora serve needs an extra: pip install 'agora-context[gateway]'\n"
    )
