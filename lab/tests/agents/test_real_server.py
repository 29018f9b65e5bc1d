"""The same questions to a real llama.cpp server and to its double."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("xllamacpp", reason="the extra `llama` is not installed")

import httpx2
from lab.tests.backbones.loopback import SLOTS, Loopback

from agora_lab.agents.answers import Answers
from agora_lab.agents.base import Messages
from agora_lab.agents.llama_server import (
    LlamaServer,
    ServerSettings,
    fetch_model,
    find_model,
)
from agora_lab.agents.openai_compatible import (
    AsyncOpenAICompatible,
    OpenAICompatible,
    Sampling,
)
from agora_lab.agents.retries import BackboneError
from agora_lab.agents.scoring import TokenScore

MODEL = "smollm2-135m"
PROMPT: Messages = [
    {"role": "system", "content": "You walk through a house. Answer with one action."},
    {"role": "user", "content": "You see a desk 1 and a door 1."},
]


@pytest.fixture(scope="module")
def real() -> Iterator[LlamaServer]:
    try:
        # Only CI may download: the default run needs no network.
        fetch_model(MODEL) if os.environ.get("AGORA_FETCH_MODELS") else find_model(MODEL)
    except BackboneError as error:
        pytest.skip(str(error))
    with LlamaServer(ServerSettings(model=MODEL, slots=SLOTS, context_tokens=1024)) as server:
        yield server


@pytest.fixture(params=["real", "double"])
def address(request: pytest.FixtureRequest, server: Loopback) -> str:
    if request.param == "double":
        return server.base_url
    found: LlamaServer = request.getfixturevalue("real")
    return found.base_url


def connect(address: str, **sampling: Any) -> OpenAICompatible:
    return OpenAICompatible(address, MODEL, sampling=Sampling(**{"max_tokens": 8} | sampling))


def test_an_answer_is_the_same_twice_and_the_second_time_the_prompt_was_known(address: str) -> None:
    with connect(address) as backbone:
        first, again = backbone.answer(PROMPT), backbone.answer(PROMPT)

    assert first.text == again.text
    assert first.text
    assert 0 < first.output_tokens <= 8
    assert again.input_tokens == first.input_tokens > 10
    assert again.cached_tokens == first.input_tokens - 1


def test_more_samples_than_slots_are_refused_in_these_words(address: str) -> None:
    with (
        connect(address) as backbone,
        pytest.raises(
            BackboneError, match=r"400: Field 'n': Value must be between 1 <= value <= 2"
        ),
    ):
        backbone.chat(PROMPT, samples=SLOTS + 1)


@pytest.mark.parametrize("text", ["open door 1", " mug 2, é und 🦄.", "a\n\nb"])
def test_a_text_is_scored_token_by_token(address: str, text: str) -> None:
    async def score() -> tuple[TokenScore, ...]:
        async with AsyncOpenAICompatible(address, MODEL) as backbone:
            return await backbone.score(PROMPT, text)

    scores = asyncio.run(score())

    assert "".join(score.text for score in scores) == text
    assert all(score.logprob < 0 for score in scores)


def post(address: str, path: str, body: Any) -> Any:
    return httpx2.post(address.removesuffix("/v1") + path, json=body, timeout=60).json()


def test_a_prompt_that_is_too_long_is_refused_with_its_length(real: LlamaServer) -> None:
    with (
        connect(real.base_url) as backbone,
        pytest.raises(BackboneError, match=r"status 400: request \(\d+ tokens\) exceeds the avail"),
    ):
        backbone.answer([{"role": "user", "content": "mug " * 1500}])


def test_answers_on_disk_outlive_the_server(real: LlamaServer, tmp_path: Path) -> None:
    sampling = Sampling(max_tokens=3)
    kept = Answers(tmp_path)
    alive = OpenAICompatible(real.base_url, MODEL, answers=kept, sampling=sampling)
    said = alive.answer(PROMPT)

    gone = OpenAICompatible("http://127.0.0.1:9/v1", MODEL, answers=kept, sampling=sampling)
    assert gone.answer(PROMPT) == said


def test_the_server_calls_itself_by_a_name_and_not_a_path(real: LlamaServer) -> None:
    body = {"messages": PROMPT, "max_tokens": 1}

    assert post(real.base_url, "/v1/chat/completions", body)["model"] == MODEL


def test_a_server_that_cannot_start_says_what_it_wrote(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF, but no more")

    with pytest.raises(BackboneError, match=r"(?s)exited with .* its log ends: .*failed to load"):
        LlamaServer(ServerSettings(model=str(broken)))


HOLDER = """
import sys, time
from agora_lab.agents.llama_server import LlamaServer, ServerSettings
server = LlamaServer(ServerSettings(model=sys.argv[1], context_tokens=512))
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.usefixtures("real")
def test_a_server_ends_with_the_process_that_started_it() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, MODEL], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    pid = int(holder.stdout.readline())
    holder.send_signal(signal.SIGKILL)
    holder.communicate()

    until = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A child that nobody has waited for is still listed.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_closing_a_server_stops_its_process(real: LlamaServer) -> None:
    with LlamaServer(ServerSettings(model=MODEL, context_tokens=512)) as server:
        pid = server.pid
        assert _runs(pid)

    assert not _runs(pid)
