import asyncio
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("openai", reason="the clients have an environment of their own")
pytest.importorskip("anthropic", reason="the clients have an environment of their own")

import anthropic
import openai

from agora.errors import UnknownClientError
from agora.integrations.clients import wrap
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

            return Ran(asyncio.run(run()), history)

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

        return Ran(drive(steps, ask, history), history)


def dump(answer: Any) -> Body:
    whole: Body = answer.model_dump(exclude_none=True, warnings=False)
    return whole


def test_the_client_that_was_wrapped_stays_as_it_was(tmp_path: Path) -> None:
    client = openai.OpenAI(api_key="key", base_url="http://127.0.0.1:9/v1")
    wrapped = wrap(client)

    assert type(client) is openai.OpenAI
    assert isinstance(wrapped, openai.OpenAI)
    assert wrapped._client is client._client


def test_what_is_no_client_is_refused_with_a_reason() -> None:
    with pytest.raises(UnknownClientError, match=r"a builtins\.dict cannot be wrapped"):
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
    assert "elided" in json.dumps(server.received[-1].messages)
    assert "elided" not in str(items)


def test_a_conversation_that_the_provider_holds_is_sent_as_it_is(tmp_path: Path) -> None:
    write_notes(tmp_path)
    with loopback(script(thinking=False)) as server:
        case = Case(endpoint="responses", call="sync", folder=tmp_path, url=server.url)
        history: list[Body] = []
        client = wrap(client_of(case))

        def ask(body: Body) -> Body:
            return dump(client.responses.create(**body, previous_response_id="resp_0"))

        drive(loop(case, history), ask, history)

    assert "elided" not in json.dumps([request.messages for request in server.received])


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
