import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("prometheus_client", reason="the extra gateway is not installed")

from click.testing import CliRunner
from rich.console import Console

from agora.cli.group import agora
from agora.cli.top import Watch, fetch
from agora.gateway.watching.metrics import Meter
from agora.gateway.watching.snapshot import Snapshot


@contextmanager
def serving(body: bytes, status: int = 200, location: str = "") -> Iterator[str]:
    """Serve one answer to every GET on loopback, and give its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            if location:
                self.send_header("location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def busy() -> Meter:
    meter = Meter()
    for _ in range(30):
        meter.upstream("chat", 200, tenant="t-aaa", seconds=0.4)
        meter.request("chat", "t-aaa", 0, "compressed", 0.012, 40_000, 10_000)
        meter.usage("chat", "t-aaa", 0, 9_000, 1_000, 200, 0.05)
    for _ in range(10):
        meter.upstream("messages", 503)
        meter.request("messages", "t-bbb", 2, "not_worth_it_yet", 0.0004, 9_000, 9_000)
    meter.usage("chat", "t-aaa", 0, 0, 10_000, 0, -0.25)
    return meter


def shown(watch: Watch, width: int = 120) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(watch.picture())
    return capture.get()


def watching(*looks: tuple[Snapshot, float]) -> Watch:
    watch = Watch("http://127.0.0.1:8484")
    for snapshot, at in looks:
        watch.look(snapshot, at)
    return watch


def test_one_look_shows_requests_rungs_tokens_and_dollars() -> None:
    text = shown(watching((busy().snapshot(), 0.0)))

    assert re.search(r"requests\s+40 ", text)
    assert re.search(r"scored\s+━+\s+75%", text)
    assert re.search(r"unchanged\s+━+\s+25%", text)
    assert re.search(r"net saving\s+\$1\.25", text)
    assert re.search(r"lost by edits\s+-\$0\.2500", text)
    assert re.search(r"tokens elided\s+900\.0k of 1\.3M", text)
    assert re.search(r"failed upstream\s+10", text)
    assert re.search(r"chat\s+30\s+–\s+≤ 25 ms\s+≤ 25 ms\s+12 ms\s+≤ 500 ms\s+0\s+0", text)
    assert re.search(r"t-aaa\s+30\s+1\.2M\s+900\.0k\s+75%", text)
    assert "compressed 30 · not worth it yet 10" in text


def test_rates_are_those_of_the_last_minute() -> None:
    meter = busy()
    first = meter.snapshot()
    for _ in range(60):
        meter.request("chat", "t-aaa", 0, "compressed", 0.004, 10, 5)
    text = shown(watching((first, 0.0), (meter.snapshot(), 30.0)))

    assert re.search(r"per second\s+2\.0", text)
    assert re.search(r"half were held\s+≤ 5\.0 ms", text)


def test_looks_that_are_older_than_a_minute_are_forgotten_but_the_minute_is_covered() -> None:
    meter = Meter()
    looks = []
    for second in range(0, 300, 2):
        meter.request("chat", "t", 2, "bypass", 0.001)
        looks.append((meter.snapshot(), float(second)))
    text = shown(watching(*looks))

    assert re.search(r"per second\s+0\.5", text)


def test_the_totals_are_written_as_json_once() -> None:
    with serving(busy().render()) as url:
        result = CliRunner().invoke(agora, ["top", url, "--json", "-"])
    found = json.loads(result.stdout)

    assert found["requests"] == 40
    assert found["requests_by_reason"] == {"compressed": 30, "not_worth_it_yet": 10}
    assert found["tokens_elided"] == 30 * 30_000
    assert found["dollars_lost"] == 0.25


def test_a_gateway_that_does_nothing_yet_can_be_looked_at() -> None:
    text = shown(watching((Meter().snapshot(), 0.0)))

    assert "nothing yet" in text
    assert "serving" in text


def test_a_gateway_that_drains_or_is_gone_says_so() -> None:
    meter = busy()
    meter.draining()
    meter.breakers(2)
    watch = watching((meter.snapshot(), 0.0))
    assert "draining" in shown(watch)
    assert "breakers open: 2" in shown(watch)

    meter.reloaded(done=False)
    assert "configuration stale" in shown(watching((meter.snapshot(), 0.0)), 160)

    watch.lost("connection refused")
    assert "no answer: connection refused" in shown(watch)


def test_models_and_the_rules_that_histories_break_are_shown() -> None:
    meter = busy()
    model = "claude-sonnet-4-5-20250929"
    meter.upstream("messages", 200, upstream="u", model=model)
    meter.exchange(
        "messages", upstream="u", model=model, seconds=3.0, tokens_in=900, tokens_out=300, rule="S3"
    )
    meter.usage("messages", "t-aaa", 1, 0, 0, 0, 0.25, upstream="u", model=model)
    text = shown(watching((meter.snapshot(), 0.0)), 120)

    assert re.search(rf"{model}\s+1\s+900\s+600\s+67%\s+≤ 5\.0 s\s+≤ 5\.0 s\s+\$0\.25", text)
    assert "rules broken: S3 1" in text


def test_ctrl_c_ends_it_with_the_code_that_shells_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agora.cli.top.time.sleep", interrupted)
    # As in a terminal, which this is not.
    monkeypatch.setenv("FORCE_COLOR", "1")
    with serving(busy().render()) as url:
        result = CliRunner().invoke(agora, ["top", url])

    assert result.exit_code == 130


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = shown(watching((busy().snapshot(), 0.0)), width).splitlines()

    assert len(lines) > 10
    assert max(map(len, lines)) <= width


def test_the_command_prints_one_look_of_a_gateway_that_runs() -> None:
    with serving(busy().render()) as url:
        result = CliRunner().invoke(agora, ["top", url + "/", "--once"])

    assert result.exit_code == 0
    assert "net saving" in result.output


def test_into_a_pipe_it_prints_once_and_exits() -> None:
    with serving(busy().render()) as url:
        command = [sys.executable, "-m", "agora.cli", "top", url]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)

    assert done.returncode == 0
    assert re.search(rb"requests\s+40 ", done.stdout)
    assert b"\x1b" not in done.stdout


def test_what_is_no_gateway_is_told_apart() -> None:
    with serving(b"up 1\n") as url, pytest.raises(ValueError, match="not a gateway's"):
        fetch(url)
    with serving(b"", 404) as url:
        result = CliRunner().invoke(agora, ["top", url])
    assert result.exit_code == 1
    assert "it answers 404" in result.output
    assert "is `agora serve` running?" in result.output


def test_no_redirect_is_followed() -> None:
    with serving(busy().render()) as goal, serving(b"", 302, f"{goal}/metrics") as url:
        result = CliRunner().invoke(agora, ["top", url, "--once"])

    assert result.exit_code == 1


def test_an_address_that_is_none_is_refused() -> None:
    result = CliRunner().invoke(agora, ["top", "file:///etc/passwd"])

    assert result.exit_code == 2
    assert "is not an http or https address" in result.output


def test_nobody_there_is_one_sentence() -> None:
    result = CliRunner().invoke(agora, ["top", "http://127.0.0.1:9", "--once"])

    assert result.exit_code == 1
    assert "nothing to watch at http://127.0.0.1:9/metrics" in result.output
