import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("openai", reason="the clients have an environment of their own")
pytest.importorskip("anthropic", reason="the clients have an environment of their own")

import anthropic
import openai

import agora
from agora import Budget, Compressor, wrap
from agora.errors import SettingError
from harness.shortened import ORIGIN, is_edited
from tests.integrations.conformance import (
    ANSWER,
    MODEL,
    TASK,
    Case,
    Conformance,
    Ran,
    script,
    write_notes,
)
from tests.integrations.loop import Body, adrive, drive, gathered, loop, whole_of
from tests.integrations.loopback import loopback


def client_of(case: Case) -> Any:
    asynchronous = case.call.startswith("a")
    options: Any = {"api_key": "key", "max_retries": 0}
    if case.endpoint == "anthropic":
        kind: Any = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
        client = kind(base_url=case.url, **options)
    else:
        kind = openai.AsyncOpenAI if asynchronous else openai.OpenAI
        client = kind(base_url=f"{case.url}/v1", **options)
    return client if case.compressor is None else wrap(client, case.compressor)


def method_of(case: Case, client: Any) -> Any:
    if case.endpoint == "responses":
        return client.responses.create
    if case.endpoint == "openai":
        return client.chat.completions.create
    return client.beta.messages.create if "beta" in case.call else client.messages.create


class TestClients(Conformance):
    example: ClassVar = "with_clients.py"
    ways: ClassVar[tuple[str, ...]] = (
        "openai/sync",
        "openai/stream",
        "openai/async",
        "openai/astream",
        "responses/sync",
        "responses/stream",
        "responses/async",
        "responses/astream",
        "anthropic/sync",
        "anthropic/stream",
        "anthropic/async",
        "anthropic/astream",
        "anthropic/beta",
        "openai/raw",
        "openai/options",
        "anthropic/helper",
        "anthropic/ahelper",
    )
    rich: ClassVar[tuple[str, ...]] = (
        "openai/sync",
        "responses/async",
        "anthropic/stream",
        "anthropic/async",
    )

    def run(self, case: Case) -> Ran:
        history: list[Body] = []
        steps = loop(case, history)
        client = client_of(case)
        if case.call == "options":
            client = client.with_options(timeout=30)
        stream = case.call in ("stream", "astream")
        if case.call.startswith("a"):

            async def aask(body: Body) -> Body:
                if case.call == "ahelper":
                    async with client.messages.stream(**body) as events:
                        return dump(await events.get_final_message())
                answer = await method_of(case, client)(**body, stream=stream)
                if stream:
                    return whole_of(case.endpoint, await gathered(answer))
                return dump(answer)

            async def run() -> str:
                answer = await adrive(steps, aask, history)
                await client.close()
                return answer

            return Ran(asyncio.run(run()), history, savings=savings_of(case, client))

        def ask(body: Body) -> Body:
            if case.call == "helper":
                with client.messages.stream(**body) as events:
                    return dump(events.get_final_message())
            if case.call == "raw":
                return dump(client.chat.completions.with_raw_response.create(**body).parse())
            answer = method_of(case, client)(**body, stream=stream)
            if stream:
                return whole_of(case.endpoint, [piece.model_dump() for piece in answer])
            return dump(answer)

        answer = drive(steps, ask, history)
        return Ran(answer, history, savings=savings_of(case, client))


def savings_of(case: Case, client: Any) -> agora.Savings | None:
    return agora.savings(client) if case.compressor else None


def dump(answer: Any) -> Body:
    whole: Body = answer.model_dump(exclude_none=True, warnings=False)
    return whole


def test_the_client_that_was_wrapped_stays_as_it_was(tmp_path: Path) -> None:
    client = openai.OpenAI(api_key="key", base_url="http://127.0.0.1:9/v1")
    wrapped = wrap(client)

    assert type(client) is openai.OpenAI
    assert isinstance(wrapped, openai.OpenAI)


def test_what_is_no_client_is_refused_with_a_reason() -> None:
    with pytest.raises(SettingError, match="client is an object of type dict"):
        wrap({})


def test_objects_of_an_answer_may_go_back_as_they_came(tmp_path: Path) -> None:
    write_notes(tmp_path)
    items: list[Any] = [{"role": "user", "content": TASK}]
    with loopback(script(thinking=True)) as server:
        case = Case(endpoint="responses", call="sync", folder=tmp_path, url=server.url)
        client = wrap(client_of(case))
        while True:
            answer = client.responses.create(model=MODEL, input=items, store=False)
            items += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                break
            for call in calls:
                output = case.read_file(json.loads(call.arguments)["name"])
                named = {"type": "function_call_output", "call_id": call.call_id}
                items.append({**named, "output": output})

    assert answer.output_text == ANSWER
    assert is_edited(server.received[-1].messages)
    assert not is_edited(str(items))


def test_a_conversation_that_the_provider_holds_is_sent_as_it_is(tmp_path: Path) -> None:
    write_notes(tmp_path)
    with loopback(script(thinking=False)) as server:
        case = Case(endpoint="responses", call="sync", folder=tmp_path, url=server.url)
        history: list[Body] = []
        client = wrap(client_of(case))

        def ask(body: Body) -> Body:
            return dump(client.responses.create(**body, previous_response_id="resp_0"))

        drive(loop(case, history), ask, history)

    assert not is_edited([request.messages for request in server.received])


def test_tokens_are_counted_for_the_request_that_will_be_sent(tmp_path: Path) -> None:
    write_notes(tmp_path)
    with loopback(script(thinking=False)) as server:
        case = Case(endpoint="anthropic", call="sync", folder=tmp_path, url=server.url)
        history: list[Body] = []
        client = client_of(case)
        drive(loop(case, history), lambda b: dump(client.messages.create(**b)), history)
        plain = client.messages.count_tokens(model=MODEL, messages=history[:-1])
        fewer = wrap(client).messages.count_tokens(model=MODEL, messages=history[:-1])

    assert fewer.input_tokens < 0.6 * plain.input_tokens


EAGER = Compressor(edits="every_call", budget=Budget(limit=10), k_recent=1)


def history_of(name: str = "read_file") -> list[Any]:
    """Return chat messages of an agent that has read ten files."""
    messages: list[Any] = [{"role": "user", "content": TASK}]
    for n in range(10):
        function = {"name": name, "arguments": json.dumps({"name": f"note_{n}.txt"})}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = f"Note {n}. " + "so it goes and goes. " * 60
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": result})
    return messages


def blocks_of() -> list[Any]:
    """Return the same as Anthropic's messages."""
    messages: list[Any] = [{"role": "user", "content": TASK}]
    for n in range(10):
        use = {"type": "tool_use", "id": f"toolu_{n}", "name": "read_file", "input": {"n": n}}
        messages.append({"role": "assistant", "content": [use]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}"}
        said = f"Note {n}. " + "so it goes and goes. " * 60
        messages.append({"role": "user", "content": [{**result, "content": said}]})
    return messages


class Heard:
    """A provider that answers with an empty object and keeps what it was sent."""

    def __init__(self, url: str, bodies: list[Body]) -> None:
        self.bodies = bodies
        options: Any = {"api_key": "key", "max_retries": 0}
        self.openai = openai.OpenAI(base_url=f"{url}/v1/", **options)
        self.anthropic = anthropic.Anthropic(base_url=f"{url}/", **options)


@pytest.fixture
def heard() -> Iterator[Heard]:
    bodies: list[Body] = []

    class Empty(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *said: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Heard(f"http://127.0.0.1:{server.server_port}", bodies)
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_client_that_is_wrapped_twice_compresses_once_by_the_newer_settings(heard: Heard) -> None:
    messages = history_of()
    shadowed = wrap(heard.openai, EAGER, shadow=True)
    once = wrap(heard.openai, EAGER)
    twice = wrap(wrap(once).with_options(timeout=30), EAGER)
    for client in (once, twice, wrap(shadowed, EAGER), wrap(once, EAGER, shadow=True), once):
        client.chat.completions.create(model=MODEL, messages=messages)

    sent = [body["messages"] for body in heard.bodies]
    assert sent[0] == sent[1] == sent[2] == sent[4] == EAGER.compress(messages).messages
    assert sent[3] == messages
    assert type(twice) is openai.OpenAI


def test_a_wrapped_client_says_what_it_saved(heard: Heard) -> None:
    client = agora.wrap(heard.openai, EAGER)
    none = "0 calls, 0 shortened: saved about $0.0000, about 0 fewer prompt tokens"
    assert str(agora.savings(client)) == none

    client.chat.completions.create(model=MODEL, messages=history_of())
    first = agora.savings(client)
    client.with_options(timeout=30).chat.completions.create(model=MODEL, messages=history_of()[:1])

    assert (first.calls, first.shortened, first.unpriced) == (1, 1, 1)
    assert "dollars unknown (no usage or no known price)" in str(first)
    assert (agora.savings(client).calls, agora.savings(client).shortened) == (2, 1)
    with pytest.raises(SettingError, match=r"openai\.OpenAI, which is not wrapped; it must be"):
        agora.savings(heard.openai)


def test_a_client_in_shadow_mode_says_what_it_would_have_saved(tmp_path: Path) -> None:
    write_notes(tmp_path)
    with loopback(script(thinking=False)) as server:
        case = Case(endpoint="anthropic", call="sync", folder=tmp_path, url=server.url)
        history: list[Body] = []
        shadow = agora.wrap(client_of(case), shadow=True)
        drive(loop(case, history), lambda b: dump(shadow.messages.create(**b)), history)
        shadow.messages.count_tokens(model=MODEL, messages=history[:-1])

    savings = agora.savings(shadow)
    assert not is_edited([r.messages for r in server.received])
    assert savings.calls == len(server.received)
    assert savings.shortened >= 3
    assert savings.dollars > 0
    assert "would have been shortened: would have saved about $0." in str(savings)


def test_a_refusal_of_a_shortened_request_is_answered_by_the_whole_one(tmp_path: Path) -> None:
    for endpoint in ("openai", "anthropic"):
        messages = history_of() if endpoint == "openai" else blocks_of()
        with loopback(script(thinking=False), refuses=ORIGIN) as server:
            case = Case(endpoint=endpoint, call="sync", folder=tmp_path, url=server.url)
            client = wrap(client_of(case), EAGER)
            more: Any = {"max_tokens": 9} if endpoint == "anthropic" else {}
            method_of(case, client)(model=MODEL, messages=messages, **more)

        assert len(server.refused) == 1
        assert [request.messages for request in server.received] == [messages]
        assert agora.savings(client).shortened == 0


def test_a_misspelt_setting_is_answered_with_the_nearest_one(heard: Heard) -> None:
    with pytest.raises(SettingError, match=r"edit is no setting; it must be edits"):
        agora.wrap(heard.openai, edit="never")
    with pytest.raises(SettingError, match=r"client is the class openai\.OpenAI; it must be"):
        agora.wrap(openai.OpenAI)
    paper: Any = agora.Compressor.paper(agora.load_scorer("bm25"))
    with pytest.raises(SettingError, match=r"it must be an agora\.Compressor"):
        agora.wrap(heard.openai, paper)


def test_an_unknown_model_is_warned_of_once_with_the_nearest_name(
    heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    client = wrap(heard.openai)
    for _ in range(2):
        client.chat.completions.create(model="gtp-5-mini", messages=history_of())

    warnings = [r.getMessage() for r in caplog.records if "no prices" in r.getMessage()]
    assert len(warnings) == 1
    assert "'gtp-5-mini' (did you mean gpt-5-mini" in warnings[0]


def test_messages_in_the_extra_body_are_compressed_like_any_others(heard: Heard) -> None:
    messages = history_of()
    extra = {"messages": messages, "extra": 1}
    wrapped = wrap(heard.openai, EAGER)
    wrapped.chat.completions.create(model=MODEL, messages=[], extra_body=extra)
    wrapped.chat.completions.create(model=MODEL, messages=messages, extra_body={"extra": 1})

    first, second = heard.bodies
    assert first == second
    assert first["messages"] == EAGER.compress(messages).messages
    assert (first["extra"], extra) == (1, {"messages": messages, "extra": 1})


def test_what_is_said_of_tools_in_the_extra_body_is_heard(heard: Heard) -> None:
    messages = history_of("frobnicate")
    tool = {"type": "function", "function": {"name": "frobnicate", "parameters": {}}}
    tool["annotations"] = {"readOnlyHint": True}
    wrap(heard.openai, EAGER).chat.completions.create(
        model=MODEL, messages=messages, extra_body={"tools": [tool]}
    )

    assert heard.bodies[0]["messages"] == EAGER.compress(messages, tools=[tool]).messages
    assert heard.bodies[0]["messages"] != EAGER.compress(messages).messages


def test_a_path_with_a_slash_at_its_end_is_the_same_path(heard: Heard) -> None:
    messages = history_of()
    body = {"model": MODEL, "messages": messages}
    wrap(heard.openai, EAGER).post("/chat/completions/", body=body, cast_to=object)

    assert heard.bodies[0]["messages"] == EAGER.compress(messages).messages


def test_batches_are_sent_as_they_are(heard: Heard) -> None:
    messages = blocks_of()
    asked: Any = {"model": MODEL, "max_tokens": 9, "messages": messages}
    requests: Any = [{"custom_id": "a", "params": asked}]
    client = wrap(heard.anthropic, EAGER)
    client.messages.batches.create(requests=requests)
    client.messages.count_tokens(model=MODEL, messages=messages)

    batch, counted = heard.bodies
    assert batch == {"requests": requests}
    assert counted["messages"] == EAGER.compress(messages, format="anthropic").messages


def test_settings_are_taken_by_name_besides_those_of_the_compressor(heard: Heard) -> None:
    messages = history_of("frobnicate")
    for kind in ("keep", "reads"):
        client = wrap(heard.openai, EAGER, tools={"frobnicate": kind})
        client.chat.completions.create(model=MODEL, messages=messages)

    reads = replace(EAGER, tools={"frobnicate": "reads"}).compress(messages).messages
    assert [body["messages"] for body in heard.bodies] == [messages, reads]
    with pytest.raises(SettingError, match="tools"):
        agora.wrap(heard.openai, tools={"a": "eats"})
