import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from harness.agents.record import Request, read_requests
from harness.agents.repository import make_repository
from harness.agents.rules import refusal
from harness.agents.script import DONE
from harness.agents.stage import Provider
from harness.signing import BETA, Json, Outcome, Signer

STEPS = 12
ELSEWHERE = "The block is bound to a different conversation."
SCHEMA = {"type": "object", "properties": {"file_path": {"type": "string"}}}
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
Ask = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return make_repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def sdk() -> Any:
    """The types of an SDK that knows of bound thinking."""
    reason = "the installed anthropic SDK, if any, does not know `thinking.block_binding`"
    pytest.importorskip("anthropic.types.beta.beta_thinking_block_binding_param", reason=reason)
    import anthropic

    return anthropic


def opening(model: str = "claude-fable-5-1") -> Json:
    return {
        "model": model,
        "max_tokens": 1_024,
        "system": "Be brief.",
        "tools": [{"name": "Read", "input_schema": SCHEMA}],
        "messages": [{"role": "user", "content": "Go."}],
    }


def take_turn(body: Json, content: list[Json]) -> None:
    """Append an answer, and the results of its calls."""
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "text " * 400}
        for block in content
        if block["type"] == "tool_use"
    ]
    body["messages"] += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": results or "And now?"},
    ]


def kinds(message: Json) -> list[str]:
    return [block["type"] for block in message["content"]]


def staged(
    files: tuple[Path, ...],
    folder: Path,
    dialogue: Callable[[Ask], Awaitable[None]],
    outcome: Outcome | None = None,
) -> list[Request]:
    """Hold a dialogue with the provider on loopback, and return what it recorded."""
    provider = Provider(files, STEPS, folder, signer=Signer(outcome))

    async def run() -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{rest:.*}", provider.answer)
        server = TestServer(app)
        await server.start_server()
        async with aiohttp.ClientSession() as client:

            async def ask(body: Json, betas: str = "", path: str = "/v1/messages") -> Any:
                headers = {"x-api-key": "sk-ant-madeup", "anthropic-beta": betas}
                async with client.post(server.make_url(path), json=body, headers=headers) as got:
                    said = await got.text()
                    streamed = got.content_type == "text/event-stream"
                    return got.status, events_in(said) if streamed else json.loads(said)

            ask.url = str(server.make_url("")).rstrip("/")  # type: ignore[attr-defined]
            try:
                await dialogue(ask)
            finally:
                await server.close()

    asyncio.run(run())
    return read_requests(folder)


def events_in(stream: str) -> list[Json]:
    lines = (line for line in stream.splitlines() if line.startswith("data: "))
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize("stream", [False, True])
def test_a_session_on_a_bound_model_thinks_unasked_and_is_never_refused(
    stream: bool, files: tuple[Path, ...], tmp_path: Path
) -> None:
    body = {**opening(), "stream": stream}
    seen: list[str] = []

    async def dialogue(ask: Ask) -> None:
        for _ in range(STEPS + 1):
            status, got = await ask(body)
            assert status == 200
            content = rebuilt(got) if stream else got["content"]
            seen.extend(block["type"] for block in content)
            take_turn(body, content)
        assert body["messages"][-2]["content"][-1]["text"] == DONE

    recorded = staged(files, tmp_path, dialogue)

    assert seen.count("thinking") > STEPS
    assert "redacted_thinking" in seen
    counts = [one.thinking.get("kept", 0) for one in recorded]
    assert counts == sorted(counts)
    assert counts[-1] == sum(
        kinds(message).count(kind)
        for message in body["messages"][1:-2:2]
        for kind in ("thinking", "redacted_thinking")
    )
    assert not any(one.thinking.get("invalid") or one.verdict for one in recorded)


def rebuilt(events: list[Json]) -> list[Json]:
    """Return the content that a stream tells, as a client without an SDK puts it together."""
    blocks: list[Json] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            if delta["type"] == "input_json_delta":
                block["input"] = json.loads(delta["partial_json"])
            else:
                (key,) = (key for key in delta if key != "type")
                block[key] += delta[key]
    return blocks


@pytest.mark.parametrize(
    ("model", "outcome", "refused"),
    [
        ("claude-fable-5-1", None, True),
        ("claude-fable-5-1", "drop", False),
        ("claude-opus-5-5", None, False),
        ("claude-opus-5-5", "error", True),
    ],
)
def test_an_edit_is_refused_or_its_blocks_dropped_as_told(
    model: str, outcome: Outcome | None, refused: bool, files: tuple[Path, ...], tmp_path: Path
) -> None:
    body = opening(model)
    answers: list[tuple[int, Any]] = []

    async def dialogue(ask: Ask) -> None:
        for _ in range(3):
            _, got = await ask(body)
            take_turn(body, got["content"])
        body["messages"][2]["content"][0]["content"] = "[elided]"
        answers.append(await ask(body))
        answers.append(await ask(body, betas=f"a,{BETA}"))
        answers.append(await ask({**body, "thinking": DROPS}, betas=f"a,{BETA}"))

    recorded = staged(files, tmp_path, dialogue, outcome)
    silent, told, dropping = answers
    edited = recorded[-3:]

    assert [status for status, _ in answers] == [400 if refused else 200] * 2 + [200]
    if refused:
        assert ELSEWHERE in silent[1]["error"]["message"]
        assert edited[0].verdict == silent[1]["error"]["message"]
        assert edited[0].verdict.startswith("messages.3.content.0: ")
        assert edited[0].thinking == {"kept": 1, "dropped": 0, "invalid": 2}
    else:
        assert "input_transformations" not in silent[1]
        assert edited[0].thinking == {"kept": 1, "dropped": 2, "invalid": 2}
        assert told[1]["input_transformations"] == dropping[1]["input_transformations"]
    places = [one["path"] for one in dropping[1]["input_transformations"]]
    assert places == ["messages.3.content.0", "messages.5.content.0"]
    assert edited[2].thinking == {"kept": 1, "dropped": 2, "invalid": 2}


def test_what_was_done_is_told_in_the_first_event_of_a_stream(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    body = {**opening(), "stream": True, "thinking": DROPS}
    told: list[Any] = []

    async def dialogue(ask: Ask) -> None:
        for _ in range(2):
            _, events = await ask(body, betas=BETA)
            told.append(events[0]["message"]["input_transformations"])
            assert not any("input_transformations" in event for event in events[1:])
            take_turn(body, rebuilt(events))
            body["system"] = "Be verbose."

    staged(files, tmp_path, dialogue)

    assert told[0] == []
    assert [one["reason"] for one in told[1]] == ["prefix_binding_mismatch"]


def test_dropped_blocks_are_not_billed(files: tuple[Path, ...], tmp_path: Path) -> None:
    body = opening("claude-opus-5-5")

    async def dialogue(ask: Ask) -> None:
        for _ in range(3):
            _, got = await ask(body)
            take_turn(body, got["content"])
        body["system"] = "Be verbose."
        await ask(body)
        bare = copy.deepcopy(body)
        for message in bare["messages"][1::2]:
            message["content"] = [b for b in message["content"] if b["type"] != "thinking"]
        await ask(bare)

    *_, dropped, bare = staged(files, tmp_path, dialogue)

    assert dropped.thinking["dropped"] == 3
    assert sum(dropped.usage.values()) == sum(bare.usage.values()) > 0


def test_thinking_may_be_turned_off_and_is_not_signed_on_other_models(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    answers: list[Json] = []

    async def dialogue(ask: Ask) -> None:
        off = {"thinking": {"type": "disabled"}}
        bodies = ({**opening(), **off}, opening("claude-opus-5"), opening())
        answers.extend([(await ask(body))[1] for body in bodies])

    staged(files, tmp_path, dialogue)

    assert ["thinking" in kinds(message) for message in answers] == [False, False, True]


def test_counting_tokens_checks_as_answering_does(files: tuple[Path, ...], tmp_path: Path) -> None:
    body = opening()
    statuses: list[int] = []

    async def dialogue(ask: Ask) -> None:
        _, got = await ask(body)
        take_turn(body, got["content"])
        statuses.append((await ask(body, path="/v1/messages/count_tokens"))[0])
        body["system"] = "Be verbose."
        statuses.append((await ask(body, path="/v1/messages/count_tokens"))[0])

    staged(files, tmp_path, dialogue)

    assert statuses == [200, 400]


def test_a_session_may_go_on_with_a_model_that_does_not_bind(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    body = opening()

    async def dialogue(ask: Ask) -> None:
        _, got = await ask(body)
        take_turn(body, got["content"])
        status, _ = await ask({**body, "model": "claude-sonnet-5", "system": "Be verbose."})
        assert status == 200

    staged(files, tmp_path, dialogue)

    altered = copy.deepcopy(body)
    altered["messages"][1]["content"][0]["thinking"] = "Something else."
    assert "Invalid `signature`" in refusal("messages", {**altered, "model": "claude-sonnet-5"})


# --- against the SDK


def test_answers_and_events_are_what_the_sdk_expects(
    sdk: Any, files: tuple[Path, ...], tmp_path: Path
) -> None:
    from pydantic import TypeAdapter

    event = TypeAdapter(sdk.types.beta.BetaRawMessageStreamEvent)
    body = {**opening(), "thinking": DROPS}

    async def dialogue(ask: Ask) -> None:
        for step in range(STEPS):
            status, got = await ask(body, betas=BETA)
            message = sdk.types.beta.BetaMessage.model_validate(got)
            assert status == 200
            assert len(message.input_transformations) == len(got["input_transformations"])
            assert message.to_dict(exclude_unset=True)["content"] == got["content"]
            for one in (await ask({**body, "stream": True}, betas=BETA))[1]:
                if one["type"] != "ping":
                    event.validate_python(one)
            take_turn(body, got["content"])
            body["system"] = f"Version {step // 3}."

    recorded = staged(files, tmp_path, dialogue)

    assert sum(one.thinking.get("dropped", 0) for one in recorded) > 0


@pytest.mark.parametrize("outcome", ["drop", "record"])
def test_every_entry_of_the_report_is_one_that_the_sdk_knows(sdk: Any, outcome: Outcome) -> None:
    from pydantic import TypeAdapter, ValidationError

    entry = TypeAdapter(sdk.types.beta.BetaInputTransformation)
    body, signer = opening(), Signer(outcome)
    take_turn(body, [signer.think(body, "One."), signer.think(body, "Two.", redacted=True)])
    body["system"] = "Be verbose."
    entries = signer.receive(body, betas=BETA).transformations

    assert len(entries) == 2
    for one in entries:
        assert entry.validate_python(one).to_dict() == one
    with pytest.raises(ValidationError):
        entry.validate_python({**entries[0], "reason": "mood"})


def test_the_fields_of_a_request_are_those_of_the_sdk(sdk: Any) -> None:
    from anthropic.types.anthropic_beta_param import AnthropicBetaParam
    from pydantic import ValidationError

    beta = sdk.types.beta
    named = {name for one in get_args(AnthropicBetaParam) for name in get_args(one)}
    body, signer = opening(), Signer()

    assert BETA in named
    fits(beta.BetaThinkingConfigAdaptiveParam, DROPS)
    fits(beta.BetaThinkingBlockBindingParam, DROPS["block_binding"])
    fits(beta.BetaThinkingBlockParam, signer.think(body, "Hm."))
    fits(beta.BetaRedactedThinkingBlockParam, signer.think(body, "Hm.", redacted=True))
    with pytest.raises(ValidationError):
        fits(beta.BetaThinkingBlockBindingParam, {"prefix_mismatch_behavior": "drop"})


def fits(kind: Any, value: Any) -> None:
    """Check a value against a TypedDict, which by itself lets unknown keys pass."""
    from pydantic import TypeAdapter

    assert set(value) <= set(get_type_hints(kind))
    TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize("stream", [False, True])
def test_the_sdk_itself_holds_a_session_and_reads_what_was_dropped(
    stream: bool, sdk: Any, files: tuple[Path, ...], tmp_path: Path
) -> None:
    body = {**opening(), "thinking": DROPS}
    reports: list[Any] = []

    async def dialogue(ask: Any) -> None:
        client = sdk.AsyncAnthropic(api_key="sk-ant-madeup", base_url=ask.url, max_retries=0)
        for step in range(STEPS):
            if step == 6:
                body["system"] = "Be verbose."
            if stream:
                async with client.beta.messages.stream(**body, betas=[BETA]) as events:
                    message = await events.get_final_message()
            else:
                message = await client.beta.messages.create(**body, betas=[BETA])
            reports.append(message.input_transformations)
            content = [block.to_dict(exclude_none=True) for block in message.content]
            for block in content:
                block.pop("parsed_output", None)
            take_turn(body, content)
        body["thinking"] = {"type": "adaptive"}
        with pytest.raises(sdk.BadRequestError, match=ELSEWHERE):
            await client.beta.messages.create(**body)
        await client.close()

    staged(files, tmp_path, dialogue)

    assert [len(report) for report in reports[:6]] == [0] * 6
    # Six answers came before the change, the fourth with two thoughts; they stay dropped.
    assert [len(report) for report in reports[6:]] == [7] * 6


def test_blocks_and_settings_are_what_botocore_would_send() -> None:
    reason = "botocore is not installed: it holds the types of Bedrock's Converse"
    pytest.importorskip("botocore", reason=reason)
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    found = Loader().load_service_model("bedrock-runtime", "service-2")
    shape = ServiceModel(found).operation_model("Converse").input_shape
    body: Json = {
        "modelId": "us.anthropic.claude-fable-5-1-v1:0",
        "messages": [{"role": "user", "content": [{"text": "Go."}]}],
        "additionalModelRequestFields": {"thinking": DROPS, "anthropic_beta": [BETA]},
    }
    signer = Signer()
    said: list[Json] = [signer.think(body, "Hm.", format="bedrock")]
    said.append(signer.think(body, "Ha.", format="bedrock", before=said, redacted=True))
    body["messages"] += [
        {"role": "assistant", "content": said},
        {"role": "user", "content": [{"text": "Go on."}]},
    ]

    assert not ParamValidator().validate(body, shape).has_errors()
    assert signer.receive(body, format="bedrock").kept == ((1, 0), (1, 1))
