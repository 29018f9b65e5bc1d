"""`POST /v1/compress`: messages in, messages out, for LiteLLM and every language."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

import urllib.error
import urllib.request
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from agora.compressor import Compressor
from agora.gateway.app import App, make_app
from agora.gateway.config import Client, Compression
from agora.gateway.editing.compress import unchanged
from agora.rows import compress_rows, is_partial
from agora.testing import sample
from harness.gateway.histories import chat, messages, responses
from harness.gateway.litellm_proxy import KEY, Asked, configuration, executable, proxy
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

EVERY_CALL = Compression(min_tokens=200, schedule="every_call")


def ask(url: str, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"content-type": "application/json", **headers}
    asked = urllib.request.Request(url + "/v1/compress", data, told)  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def library(app: App, model: str | None) -> Compressor:
    """Return the compressor that the gateway uses, as a library user would make it."""
    work: Any = app.editing.compress.work
    compressor: Compressor = work.compressor(model, work.settings.scorer)
    return compressor


def without_calls(asked: dict[str, Any]) -> list[Any]:
    return [m for m in asked["messages"] if m["role"] in ("tool", "user")]


def test_a_whole_conversation_gets_what_the_library_gives() -> None:
    with gateway(config_for("http://127.0.0.1:9", compression=EVERY_CALL)) as (url, app):
        for asked in (chat(30), responses(30), messages(30)):
            status, said = ask(url, asked)
            field = "input" if "input" in asked else "messages"
            told = library(app, asked["model"]).compress(
                asked[field],
                model=asked["model"],
                system=asked.get("system", asked.get("instructions")),
                tools=asked["tools"],
            )
            assert status == 200
            assert said["reason"] == "compressed"
            assert said[field] == json.loads(json.dumps(told.messages))
            assert said["tokens_saved"] == told.tokens_before - told.tokens_after > 0


def test_rows_without_their_calls_come_back_in_their_places() -> None:
    rows = without_calls(chat(30))
    with gateway(config_for("http://127.0.0.1:9", compression=EVERY_CALL)) as (url, app):
        status, said = ask(url, {"model": "gpt-4o", "messages": rows})
        told = compress_rows(library(app, "gpt-4o"), rows, model="gpt-4o")

    assert status == 200
    assert said["messages"] == told.rows
    assert [row.get("tool_call_id") for row in told.rows] == [r.get("tool_call_id") for r in rows]
    changed = [new for new, old in zip(told.rows, rows, strict=True) if new != old]
    assert changed
    assert all("elided" in row["content"] for row in changed)
    assert told.rows[-1] == rows[-1]
    assert 0 < said["compression_ratio"] < 1
    assert said["ccr_hashes"] == []


@given(seed=st.integers(0, 10**6), data=st.data())
def test_rows_are_never_more_fewer_or_in_another_order(seed: int, data: st.DataObject) -> None:
    history = next(iter(sample("openai", 1, seed=seed, max_steps=12)))
    rows = [m for m in history.messages if data.draw(st.booleans())]
    compressor = Compressor(schedule="every_call", min_tokens=0)

    found = compress_rows(compressor, rows)

    assert len(found.rows) == len(rows)
    assert found.tokens_after <= found.tokens_before
    for new, old in zip(found.rows, rows, strict=True):
        assert new == old or {**new, "content": old["content"]} == old


def test_a_row_list_that_grows_at_its_end_keeps_its_beginning_between_edits() -> None:
    rows = without_calls(chat(60, 2_000))
    compressor = Compressor()
    epochs, broken, before = {0}, 0, rows[:1]
    for upto in range(1, len(rows) + 1):
        found = compress_rows(compressor, rows[:upto], model="gpt-4o")
        broken += found.rows[: len(before)] != before
        epochs.add(found.compression.epoch)
        before = found.rows
    assert broken == len(epochs) - 1 > 1


def test_what_cannot_be_read_is_answered_with_what_was_found() -> None:
    with gateway(config_for("http://127.0.0.1:9", compression=EVERY_CALL)) as (url, _):
        for body, words in (
            (b"no json", "not JSON"),
            ([], "a list"),
            ({"model": "m"}, "no messages"),
            ({"messages": "x"}, "a str"),
            ({"messages": [], "format": 3}, "format is a int"),
            ({"messages": [{"role": "user", "content": "x"}], "format": "chatt"}, "chatt"),
            (b"[" * 200, "deep"),
        ):
            status, said = ask(url, body)
            assert status == 400
            assert words in said["error"]["message"]


def test_when_there_is_no_time_the_messages_come_back_as_they_are() -> None:
    asked = chat(30)
    config = config_for("http://127.0.0.1:9", compression=EVERY_CALL)
    app = make_app(config)
    app.editing.compress.deadline_seconds = 0.0
    with serving(app) as url:
        status, said = ask(url, asked)

    assert status == 200
    assert said["messages"] == asked["messages"]
    assert said["reason"] in ("deadline", "saturated")
    assert unchanged(b"{}", "deadline") == b""


def test_in_shadow_and_when_switched_off_messages_come_back_as_they_are() -> None:
    asked = chat(30)
    for compression, reason in (
        (Compression(min_tokens=200, schedule="every_call", mode="shadow"), "compressed"),
        (Compression(enabled=False), "disabled"),
    ):
        with gateway(config_for("http://127.0.0.1:9", compression=compression)) as (url, _):
            status, said = ask(url, asked)
        assert status == 200
        assert said["messages"] == asked["messages"]
        assert said["tokens_saved"] == 0
        assert said["reason"] in (reason, "nothing_gained")


def test_a_bearer_token_opens_the_door_where_tokens_are_asked_for() -> None:
    clients = (Client(name="proxy", sha256=sha256(b"word").hexdigest()),)
    config = config_for("http://127.0.0.1:9", compression=EVERY_CALL, clients=clients)
    with gateway(config) as (url, _):
        assert ask(url, chat(2))[0] == 401
        assert ask(url, chat(2), authorization="Bearer other")[0] == 401
        assert ask(url, chat(2), authorization="Bearer word")[0] == 200
        assert ask(url, chat(2), **{"x-agora-token": "word"})[0] == 200


def test_partial_rows_are_told_from_whole_conversations() -> None:
    assert not is_partial(chat(3)["messages"])
    assert is_partial(without_calls(chat(3)))
    assert not is_partial([None, 3, {"role": "user", "content": "hello"}])


def replaced(original: list[Any], asked: dict[str, Any], compressor: Compressor) -> list[Any]:
    """Return a conversation with the rows that were sent put back as the library returns them."""
    told = compress_rows(compressor, asked["messages"], model=asked.get("model")).rows
    texts = {row["tool_call_id"]: row["content"] for row in told if row["role"] == "tool"}
    return [
        {**m, "content": texts.get(m["tool_call_id"], m["content"])} if m["role"] == "tool" else m
        for m in original
    ]


@pytest.mark.skipif(executable() is None, reason="LiteLLM's proxy is not installed")
def test_the_released_proxy_sends_what_the_library_gives(tmp_path: Path) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    upstream = StrictUpstream()
    app = make_app(config_for("http://127.0.0.1:9", compression=EVERY_CALL))
    door = Asked(app)
    with (
        serving(upstream) as up,
        serving(door) as url,
        proxy(configuration(up, url), tmp_path) as base,
    ):
        client = openai.OpenAI(api_key=KEY, base_url=f"{base}/v1", max_retries=0)
        for steps in (3, 12, 24):
            for stream in (False, True):
                body = chat(steps)
                answer = client.chat.completions.create(**body, stream=stream)
                assert list(answer) if stream else answer.choices
                sent = json.loads(upstream.received[-1].body)["messages"]
                expected = replaced(body["messages"], door.bodies[-1], library(app, "gpt-4o"))
                assert [m.get("content") for m in sent] == [m.get("content") for m in expected]
                assert [m.get("tool_calls") for m in sent] == [
                    m.get("tool_calls") for m in expected
                ]
    assert "elided" in json.dumps(sent)
