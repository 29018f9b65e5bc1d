"""The cap of `agora lab live`: no provider, however it bills and answers, gets more."""

import json
import random
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from agora.cli.group import agora
from agora.core.prices import PriceSheet
from agora_lab.agents.live import LiveModel, Shape
from agora_lab.agents.purse import (
    CapReachedError,
    NoPriceError,
    Purse,
    prices_of,
    spent_from,
    worst_case,
)
from agora_lab.agents.retries import BackboneError
from agora_lab.journal import Journal

SHEET = PriceSheet(name="m", input=3.0, read=0.1, write=1.25, output=15.0)
MANNERS = ("fair", "over", "under", "hangs", "again", "cut", "nonsense")


class Provider(ThreadingHTTPServer):
    """Bills a token for each byte and the longest answer there may be, whatever it says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.manner = "fair"
        self.answer = "All done."
        self.bills: dict[str, float] = {}
        self.lock = threading.Lock()
        self.chance = random.Random(7)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = self.headers.get("authorization", self.headers.get("x-api-key", ""))
        said = [body.get("system", ""), *(message["content"] for message in body["messages"])]
        prompt = sum(len(text.encode()) for text in said) + 8 * len(said)
        most = body.get("max_completion_tokens") or body["max_tokens"]
        with self.server.lock:
            # Billed before anything is answered, and at the price of a written cache.
            dollars = SHEET.dollars(written=prompt, output=most)
            self.server.bills[key] = self.server.bills.get(key, 0.0) + dollars
            manner = self.server.manner
            if manner == "any":
                manner = self.server.chance.choice(MANNERS)
        if manner == "hangs":
            threading.Event().wait(0.3)
        if manner == "again":
            self._say(500, b'{"error": "try again"}')
            return
        factor = {"over": 50, "under": 0}.get(manner, 1)
        told = json.dumps(self._answer(prompt * factor, most * factor)).encode()
        if manner == "nonsense":
            told = b'{"choices": []}'
        self._say(200, told[: len(told) // 2] if manner == "cut" else told)

    def _answer(self, prompt: int, output: int) -> dict[str, Any]:
        text = self.server.answer
        if self.path.endswith("/messages"):
            usage = {"input_tokens": prompt, "output_tokens": output}
            return {"content": [{"type": "text", "text": text}], "usage": usage}
        usage = {"prompt_tokens": prompt, "completion_tokens": output}
        return {
            "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
            "usage": usage,
        }

    def _say(self, status: int, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def model(
    provider: Provider,
    purse: Purse,
    key: str = "k",
    shape: Shape = "openai",
    timeout_s: float = 5.0,
) -> LiveModel:
    return LiveModel(
        provider.url,
        "m",
        purse,
        SHEET,
        shape=shape,
        key=key,
        max_tokens=50,
        timeout_s=timeout_s,
        pause_s=0.0,
    )


def played(provider: Provider, folder: Path, number: int) -> tuple[str, float, int]:
    """Play one run until its cap; return its key, the cap and its answers."""
    chance = random.Random(number)
    path, key = folder / f"{number}.jsonl", f"key-{number}"
    most = chance.uniform(0.0, 0.06)
    shape: Shape = chance.choice(("openai", "anthropic"))
    answers = 0
    history: list[dict[str, Any]] = [{"role": "system", "content": "Work."}]
    for _ in range(60):
        history.append({"role": "user", "content": chance.choice(("ok 世界 ", "{}")) * 40})
        # A new purse each time, as after a kill.
        asked = model(provider, Purse(path, most), key, shape, timeout_s=0.2)
        try:
            answers += bool(asked.answer(history))
        except CapReachedError:
            return key, most, answers
        except BackboneError:
            continue
    return key, most, answers


def test_a_thousand_runs_never_pass_their_cap(provider: Provider, tmp_path: Path) -> None:
    provider.manner = "any"
    with ThreadPoolExecutor(16) as pool:
        runs = list(pool.map(lambda number: played(provider, tmp_path, number), range(1_000)))
    shares = []
    for key, most, _ in runs:
        paid = sum(
            dollars
            for told, dollars in provider.bills.items()
            if told.endswith(f" {key}") or told == key
        )
        assert paid <= most
        shares.append(paid / most if most else 0.0)

    assert len(runs) == 1_000
    assert sum(answers for _, _, answers in runs) > 500
    # One that says fifty times what it bills is soon believed, and the run ends.
    assert sum(share > 0.2 for share in shares) > 100


def test_both_shapes_are_spoken(provider: Provider, tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Work."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    shapes: tuple[Shape, ...] = ("openai", "anthropic")
    for shape in shapes:
        answer = model(provider, Purse(tmp_path / "p", 1.0), shape=shape).answer(messages)
        assert answer.text == "All done."
        assert answer.input_tokens > 0
    assert set(provider.bills) == {"Bearer k", "k"}


def test_every_try_is_counted_and_a_refusal_is_not_tried_again(
    provider: Provider, tmp_path: Path
) -> None:
    provider.manner = "again"
    with pytest.raises(BackboneError, match="answered 500"):
        model(provider, Purse(tmp_path / "p", 1.0)).answer([{"role": "user", "content": "go"}])
    assert spent_from(tmp_path / "p").calls == 3
    broken = LiveModel(f"{provider.url}/nowhere?", "m", Purse(tmp_path / "q", 1.0), SHEET)
    provider.manner = "over"
    broken.answer([{"role": "user", "content": "go"}])
    lines = (tmp_path / "q").read_text().splitlines()
    assert len(lines) == 2
    assert '"reported": true' in lines[1]
    assert spent_from(tmp_path / "q").calls == 1


def test_nothing_is_sent_that_might_pass_the_cap(provider: Provider, tmp_path: Path) -> None:
    with pytest.raises(CapReachedError, match="raise --max-dollars"):
        model(provider, Purse(tmp_path / "p", 0.0001)).answer([{"role": "user", "content": "go"}])
    assert provider.bills == {}


@given(st.lists(st.floats(0, 0.4), max_size=20), st.floats(0, 2))
def test_what_is_counted_never_passes_the_cap(costs: list[float], most: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p")
        for cost in costs:
            with suppress(CapReachedError):
                Purse(path, most).spend(cost)
            assert spent_from(path).dollars <= most


def test_processes_wait_for_each_other(tmp_path: Path) -> None:
    held = Journal(tmp_path / "p")
    threading.Timer(0.1, held.close).start()
    Purse(tmp_path / "p", 1.0).spend(0.25)

    assert spent_from(tmp_path / "p").dollars == 0.25
    assert spent_from(tmp_path / "none").dollars == 0


def test_a_model_without_prices_is_refused_unless_they_are_given() -> None:
    for name in ("house-model", "gpt-99-nano"):
        with pytest.raises(NoPriceError, match="--dollars-per-million"):
            prices_of(name)
    assert prices_of("house-model", (2.0, 8.0)).output == 8.0
    assert prices_of("gpt-5").name == "gpt-5"


@given(st.text(max_size=300))
def test_the_worst_case_is_dearer_than_a_token_for_each_byte(text: str) -> None:
    body = json.dumps({"content": text}).encode()
    most = SHEET.dollars(written=len(text.encode("utf-8", "replace")), output=50)

    assert worst_case(SHEET, body, 50) > most


def test_tasks_are_played_both_ways_and_resumed_under_a_higher_cap(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "sk-planted")

    def run(dollars: str) -> Any:
        command = ["lab", "live", "--url", provider.url, "--model", "m", "--key-env", "A_KEY"]
        command += ["--dollars-per-million", "3", "15", "--tasks", "2", "--steps", "3"]
        command += ["--max-dollars", dollars, "--max-tokens", "50", "--out", str(tmp_path / "run")]
        return CliRunner().invoke(agora, [*command, "--json", str(tmp_path / "out.json")])

    short = run("0.09")
    assert short.exit_code == 0, short.output
    assert "the cap of $0.09 is reached" in short.output
    assert sum(provider.bills.values()) <= 0.09
    long = run("5")
    assert long.exit_code == 0, long.output
    assert "2 tasks played both ways" in long.output
    found = json.loads((tmp_path / "out.json").read_text())
    assert set(found["figures"]) == {"reward", "steps", "tokens", "dollars"}
    assert sum(provider.bills.values()) <= found["counted_dollars"] <= 5
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or b"sk-planted" not in file.read_bytes()
