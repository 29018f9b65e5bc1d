"""Settings, routes, usage, queue and memory of the service."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra gateway is not installed")

from agora.logs import Usage
from agora.service import SettingsError, UsageStream, load_settings, route_of, settings_from

# Private: turns and queues of workers, without processes.
from agora.service.workers import Turns


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"limts": {}}, "limts is not a setting (did you mean limits?)"),
        ({"limits": {"dedline_ms": 1}}, "limits.dedline_ms is not a setting"),
        ({"limits": {"deadline_ms": 0}}, "limits.deadline_ms: Expected `int` >= 1"),
        ({"mode": "edt"}, "mode: Invalid enum value 'edt'"),
        ({"compression": {"scorer": "recencey"}}, "did you mean recency?"),
        ({"compression": {"keep_ratio": 2}}, "compression.keep_ratio"),
        ({"upstreams": {"openai": "api.openai.com"}}, "upstreams"),
        ({"prices": {"mine": {"like": "nobody"}}}, "nobody"),
    ],
)
def test_a_mistake_in_the_settings_is_named_with_its_place(tables: Any, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(tables, "proxy.toml")

    assert says in str(caught.value)
    assert str(caught.value).startswith("proxy.toml: ")


def test_a_file_of_settings(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(
        'mode = "shadow"\n[compression]\nmin_tokens = 5\n[prices."mine-7b"]\n'
        'like = "claude-opus-4-5"\ninput = 4.0\ntiers = [{above = 9, input = 2, output = 2}]\n'
    )

    settings = load_settings(path)

    assert (settings.mode, settings.compressor().min_tokens) == ("shadow", 5)
    assert settings.sheet("mine-7b").input == 4.0
    assert settings.sheet("gpt-5").name == "gpt-5"
    with pytest.raises(SettingsError):
        load_settings(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("/v1/chat/completions", "openai"),
        ("/chat/completions/", "openai"),
        ("/openai/deployments/gpt-4o-eu/chat/completions", "openai"),
        ("/api/v1/responses", "responses"),
        ("/v1/messages", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/v1beta/models/gemini-3-pro:streamGenerateContent", "gemini"),
        ("/v1beta/openai/chat/completions", "openai"),
        ("/model/us.anthropic.claude-opus-5/converse-stream", "bedrock"),
        ("/v1/threads/t_1/messages", None),
        ("/v1/messages/batches", None),
        ("/v1/embeddings", None),
        ("/model/m/invoke", None),
    ],
)
def test_a_path_tells_the_format(path: str, format: str | None) -> None:
    route = route_of("POST", path)

    assert (route.format if route else None) == format
    assert route_of("GET", path) is None


_ANTHROPIC = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3,'
    b'"cache_read_input_tokens":90,"cache_creation_input_tokens":7,"output_tokens":1}}}\n\n'
    + b'data: {"type":"content_block_delta","delta":{"text":"\\"usage\\": {}"}}\n\n' * 3_000
    + b'data: {"type":"message_delta","usage":{"output_tokens":55}}\n\n'
    + b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


@pytest.mark.parametrize("size", [1, 7, 1_000, 1 << 20])
def test_usage_is_read_from_a_stream_in_pieces_of_any_size(size: int) -> None:
    stream = UsageStream()
    for at in range(0, len(_ANTHROPIC), size):
        stream.feed(_ANTHROPIC[at : at + size])

    assert stream.usage() == Usage(uncached=3, read=90, written=7, output=55)
    assert stream.ended or size < 20


@pytest.mark.parametrize("size", [200, 1_000, 1 << 20])
def test_an_answer_is_known_by_its_calls_and_its_text(size: int) -> None:
    stream = UsageStream()
    raw = (
        b'data: {"type":"content_block_delta",'
        b'"delta":{"type":"text_delta","text":"I \\"see\\", "}}\n\n'
        b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"so."}}\n\n'
        b'data: {"type":"content_block_start",'
        b'"content_block":{"type":"tool_use","id":"toolu_1"}}\n\n'
    )
    for at in range(0, len(raw), size):
        stream.feed(raw[at : at + size])

    assert "toolu_1" in stream.words() or size < len(raw)
    assert 'I "see", so.' in stream.words() or size < len(raw)


def test_usage_of_an_answer_in_an_unknown_encoding_is_not_read() -> None:
    stream = UsageStream("br")
    stream.feed(json.dumps({"usage": {"prompt_tokens": 3}}).encode())

    assert stream.usage() is None


def test_owners_take_turns_however_much_one_of_them_asks() -> None:
    turns = Turns()
    for n in range(50):
        turns.put("greedy", n)
    turns.put("modest", "mine")

    assert [turns.take(), turns.take()] == [0, "mine"]


def test_a_queue_that_is_full_says_so_at_once() -> None:
    from agora.compressor import Since
    from agora.service import Call
    from agora.service.workers import LateError, Workers

    async def work() -> list[str]:
        settings = settings_from({"limits": {"workers": 0, "queue": 2, "deadline_ms": 20_000}})
        workers = Workers(settings)
        route = route_of("POST", "/v1/chat/completions")
        assert route is not None
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()

        call = Call(route=route, body=body)

        async def decide() -> str:
            try:
                return str((await workers.decide(call, Since())).account.reason)
            except LateError as error:
                return error.reason

        found = await asyncio.gather(*(decide() for _ in range(5)))
        await workers.close()
        return found

    found = asyncio.run(work())

    assert found.count("saturated") == 3
    assert found[0] == "nothing_to_elide"
