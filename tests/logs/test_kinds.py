"""What each kind of log gives, and how calls become trajectories."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agora.formats import validate

# Private: any value as a count, a time or a text.
from agora.formats.usage import as_count
from agora.logs import Recording, Tally, calls, read_logs
from agora.logs.kinds import otel
from agora.logs.values import as_json, as_seconds, as_text

FIXTURES = Path(__file__).parent / "fixtures"
Message = dict[str, Any]


def read(path: Path, kind: str | None = None) -> tuple[list[Recording], Tally]:
    tally = Tally()
    return list(read_logs([path], tally, kind=kind)), tally


def outputs(recording: Recording) -> tuple[int, ...]:
    """Return the generated tokens of each call."""
    return tuple(usage.output for usage in recording.usage)


def read_lines(
    folder: Path, values: list[Any], kind: str | None = None
) -> tuple[list[Recording], Tally]:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return read(path, kind)


def chat(name: str, steps: int) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": f"Find {name}."}]
    for n in range(steps):
        function = {"name": "look", "arguments": json.dumps({"at": n})}
        call = {"id": f"{name}_{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"{name}_{n}", "content": f"{name} {n}"})
    return messages


def anthropic(steps: int, *, mark: bool) -> list[Message]:
    """Return a trajectory, with the cache breakpoint at its end as clients set it."""
    messages: list[Message] = [{"role": "user", "content": "Find it."}]
    for n in range(steps):
        use = {"type": "tool_use", "id": f"t{n}", "name": "look", "input": {"at": n}}
        messages.append({"role": "assistant", "content": [use]})
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "nothing"}
        messages.append({"role": "user", "content": [result]})
    if mark:
        content = messages[-1]["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        content[-1]["cache_control"] = {"type": "ephemeral"}
        messages[-1] = {"role": "user", "content": content}
    return messages


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    same_task=st.booleans(),
    data=st.data(),
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
def test_calls_come_together_however_their_trajectories_are_interleaved(
    sizes: list[int], same_task: bool, data: st.DataObject, tmp_path: Path
) -> None:
    wholes = [chat(f"thing{i}", size) for i, size in enumerate(sizes)]
    if same_task:
        wholes = [[{"role": "user", "content": "Find it."}, *whole[1:]] for whole in wholes]
    due = [list(range(1, len(whole) + 1, 2)) for whole in wholes]
    log = []
    while any(due):
        i = data.draw(st.sampled_from([i for i, left in enumerate(due) if left]))
        sent = due[i].pop(0)
        answer = wholes[i][sent] if sent < len(wholes[i]) else {"role": "assistant", "content": "."}
        usage = {"prompt_tokens": 9, "completion_tokens": 100 * i + sent}
        response = {"choices": [{"message": answer}], "usage": usage}
        log.append({"request": {"model": "m", "messages": wholes[i][:sent]}, "response": response})

    recordings, tally = read_lines(tmp_path, log)

    assert not tally.bad
    found = {json.dumps(r.messages): (r.calls, outputs(r)) for r in recordings}
    assert found == {
        json.dumps([*whole, {"role": "assistant", "content": "."}]): (
            tuple(range(1, len(whole) + 1, 2)),
            tuple(100 * i + sent for sent in range(1, len(whole) + 1, 2)),
        )
        for i, whole in enumerate(wholes)
    }


def test_a_breakpoint_that_wanders_does_not_part_a_trajectory(tmp_path: Path) -> None:
    system = [{"type": "text", "text": "You find things."}]
    log = [
        {"model": "claude", "system": system, "messages": anthropic(n, mark=True)} for n in range(4)
    ]

    (recording,), _ = read_lines(tmp_path, log)

    assert recording.format == "anthropic"
    assert recording.calls == (1, 3, 5, 7)
    assert recording.messages == anthropic(3, mark=True)
    assert recording.system == system


def test_another_system_text_is_another_trajectory(tmp_path: Path) -> None:
    log = [
        {"model": "claude", "system": name, "messages": anthropic(n, mark=False)}
        for n in range(2)
        for name in ("You search.", "You check.")
    ]

    recordings, _ = read_lines(tmp_path, log)

    assert [(r.system, r.calls) for r in recordings] == [
        ("You search.", (1, 3)),
        ("You check.", (1, 3)),
    ]


def test_an_answer_of_anthropic_tells_plain_messages_apart(tmp_path: Path) -> None:
    response = {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
    log = [{"request": {"messages": [{"role": "user", "content": "hi"}]}, "response": response}]

    (recording,), _ = read_lines(tmp_path, log)

    assert recording.format == "anthropic"
    assert recording.messages[-1] == response


def test_what_the_provider_holds_itself_is_put_before_the_new_items(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}
    output = {"type": "function_call_output", "call_id": "c1", "output": "a key"}
    log = [
        {"request": {"input": "Find it."}, "response": {"id": "r1", "output": [call]}},
        {
            "request": {"input": [output], "previous_response_id": "r1"},
            "response": {"id": "r2", "output": [said], "usage": {"output_tokens": 4}},
        },
        {"request": {"input": [output], "previous_response_id": "lost"}},
    ]

    (recording,), tally = read_lines(tmp_path, log)

    assert recording.format == "responses"
    assert recording.messages == [{"role": "user", "content": "Find it."}, call, output, said]
    assert recording.calls == (1, 3)
    assert outputs(recording) == ()
    assert tally.examples[0].problem.startswith("continues a response that is not in the log")


def test_an_answer_whose_calls_were_not_run_is_left_out(tmp_path: Path) -> None:
    whole = chat("key", 2)
    response = {
        "choices": [{"message": whole[3]}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 9},
    }
    log = [{"request": {"messages": whole[:3]}, "response": response, "timestamp": 1_700_000_000}]

    (recording,), _ = read_lines(tmp_path, log)

    assert recording.messages == whole[:3]
    assert (recording.calls, outputs(recording)) == ((3,), (9,))
    assert recording.at_seconds == (1_700_000_000.0,)


def test_calls_that_failed_are_skipped_and_counted(tmp_path: Path) -> None:
    body = {"messages": chat("key", 1)}
    log = [
        {"request": body, "response": {"error": {"message": "overloaded"}}},
        {"custom_id": "task 4", "body": body, "response": {"body": {"type": "error"}}},
        {"custom_id": "task 4", "body": body},
    ]

    (recording,), tally = read_lines(tmp_path, log)

    assert recording.task == "task 4"
    assert tally.skipped == {"the call failed": 2}


@pytest.mark.parametrize("layout", ["a line", "an array", "a message per line", "a body"])
def test_a_finished_conversation_is_one_call_per_message_of_the_agent(
    layout: str, tmp_path: Path
) -> None:
    whole = [*chat("key", 2), {"role": "assistant", "content": "There."}]
    path = tmp_path / "log.json"
    path.write_text(
        {
            "a line": json.dumps(whole) + "\n" + json.dumps(whole[:-1]) + "\n",
            "an array": json.dumps(whole, indent=1),
            "a message per line": "".join(json.dumps(message) + "\n" for message in whole),
            "a body": json.dumps({"messages": whole}),
        }[layout]
    )

    recordings, tally = read(path)

    first = recordings[0]
    assert (first.messages, first.calls, first.format) == (whole, (), "openai")
    assert not tally.bad


def test_only_so_much_is_held_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = [{"messages": chat(f"thing{i}", n)} for n in range(3) for i in range(5)]

    def count() -> int:
        return len(read_lines(tmp_path, log)[0])

    assert count() == 5
    monkeypatch.setattr(calls, "MAX_OPEN", 4)
    assert count() == 15
    monkeypatch.setattr(calls, "MAX_OPEN", 1_000)
    monkeypatch.setattr(calls, "MAX_OPEN_BYTES", 100)
    assert count() == 15


def test_litellm_payloads_are_grouped_and_failed_ones_skipped() -> None:
    (first, second), tally = read(FIXTURES / "litellm.jsonl")

    assert first.model == "gpt-4o"
    assert (first.calls, outputs(first), first.task) == ((2, 4), (20, 20), "s-1")
    assert first.messages[-1] == {"role": "assistant", "content": "It is in drawer 1."}
    assert isinstance(first.tools, list)
    assert second.calls == (1,)
    assert tally.skipped == {"the call failed": 1}


def test_litellm_calls_that_are_no_chat_or_hide_their_messages_are_told_apart(
    tmp_path: Path,
) -> None:
    base = {"call_type": "acompletion", "startTime": 1.0, "messages": [], "status": "success"}
    log = [
        {**base, "call_type": "aembedding"},
        {**base, "cache_hit": True},
        {**base, "messages": "redacted-by-litellm"},
        {**base, "messages": {"role": "user"}},
        {"standard_logging_object": {**base, "messages": chat("key", 1)}},
        {**base, "call_type": "aresponses", "messages": "Find it."},
        {**base, "call_type": "anthropic_messages", "messages": anthropic(1, mark=False)},
        {"status": "success"},
    ]

    recordings, tally = read_lines(tmp_path, log)

    assert [r.format for r in recordings] == ["openai", "responses", "anthropic"]
    assert tally.bad == 3
    assert tally.skipped == {
        "the call is of type aembedding": 1,
        "LiteLLM answered from its own cache": 1,
    }


def test_a_claude_code_transcript_is_put_together_again() -> None:
    (first, again, agent, after), tally = read(FIXTURES / "claude_code.jsonl")

    blocks = [block["type"] for block in first.messages[1]["content"]]
    assert blocks == ["thinking", "tool_use", "tool_use"]
    results = [block["tool_use_id"] for block in first.messages[2]["content"]]
    assert results == ["toolu_1", "toolu_2"]
    assert (first.calls, outputs(first)) == ((1, 3, 5), (80, 30, 5))
    # Written again from the second answer on: only what came after counts as new calls.
    assert again.messages[:4] == first.messages[:4]
    assert again.messages[4]["content"] == "No: change config.py."
    assert again.calls == (5, 7)
    # After a compaction, ended while a tool was still to run.
    assert after.messages[0]["content"][0]["text"].startswith("This conversation is continued")
    assert (len(after.messages), after.calls, outputs(after)) == (1, (1,), (12,))
    assert agent.messages[0]["content"] == "Count the callers."
    assert {r.task for r in (first, again, after, agent)} == {first.id.split(":")[0]}
    assert tally.bad == 1
    assert tally.examples[0].where == "claude_code.jsonl:7"


def _line(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> Message:
    message = {"role": kind, "content": content, "id": more.pop("id", uuid)}
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message}
    return {**line, **more}


def test_a_call_that_was_broken_off_is_given_a_result_that_says_so(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    orphan = {"type": "tool_result", "tool_use_id": "t0", "content": "late"}
    log = [
        _line("user", "u1", None, "Run it."),
        _line("assistant", "a1", "u1", [use]),
        _line("user", "u2", "a1", "Stop."),
        _line("assistant", "a2", "u2", [{"type": "text", "text": "Stopped."}]),
        _line("user", "u3", "a2", [orphan]),
        _line("assistant", "a3", "u3", "Still stopped."),
        _line("user", "u1", None, "Run it."),
        _line("assistant", "a4", "u3", None),
    ]

    (recording,), tally = read_lines(tmp_path, log)

    assert not validate(recording.messages, format="anthropic")
    given_back = recording.messages[2]["content"]
    assert given_back[0]["is_error"]
    assert given_back[1] == {"type": "text", "text": "Stop."}
    assert tally.skipped["lines that stand in the file twice"] == 1
    assert tally.bad == 1


def test_old_sidechains_are_told_apart_by_their_first_line(tmp_path: Path) -> None:
    def side(kind: str, uuid: str, parent: str | None, text: str) -> Message:
        return _line(kind, uuid, parent, text, isSidechain=True)

    log = [
        side("user", "x1", None, "Count A."),
        side("user", "y1", None, "Count B."),
        side("assistant", "x2", "x1", "Two A."),
        side("assistant", "y2", "y1", "Three B."),
    ]

    recordings, _ = read_lines(tmp_path, log)

    assert [r.messages[0]["content"] for r in recordings] == ["Count A.", "Count B."]


def test_spans_are_put_in_order_and_become_chat_messages() -> None:
    (recording,), _ = read(FIXTURES / "otel.jsonl")

    assert [message["role"] for message in recording.messages] == [
        "system", "user", "assistant", "tool", "tool", "assistant"
    ]  # fmt: skip
    assert recording.calls == (2, 5)
    assert outputs(recording) == (21, 7)
    assert recording.at_seconds == (1001.0, 1005.0)
    assert recording.model == "gpt-4o"
    assert recording.task == "conv_9"
    assert recording.tools == [
        {
            "type": "function",
            "function": {
                "name": "look",
                "description": "Look.",
                "parameters": {"type": "object"},
            },
        }
    ]


def _as_indexed(prefix: str, messages: list[Message], style: str) -> dict[str, Any]:
    """Return messages as the attributes that the two older ways of writing them have."""
    out: dict[str, Any] = {}
    for i, message in enumerate(messages):
        at = f"{prefix}.{i}" if style == "gen_ai" else f"{prefix}.{i}.message"
        for key in ("role", "content", "tool_call_id"):
            if message.get(key) is not None:
                out[f"{at}.{key}"] = message[key]
        for j, call in enumerate(message.get("tool_calls", ())):
            function = call["function"]
            if style == "gen_ai":
                fields = {"id": call["id"], **function}
                inner = f"{at}.tool_calls.{j}"
            else:
                fields = {"id": call["id"]}
                fields |= {f"function.{key}": value for key, value in function.items()}
                inner = f"{at}.tool_calls.{j}.tool_call"
            out |= {f"{inner}.{key}": value for key, value in fields.items()}
    return out


@pytest.mark.parametrize("style", ["gen_ai", "openinference"])
def test_older_ways_of_writing_spans_give_the_same_messages(style: str, tmp_path: Path) -> None:
    whole = chat("key", 12)
    log = []
    for sent in range(1, len(whole) + 1, 2):
        attributes: dict[str, Any] = {"gen_ai.request.model": "m"}
        if style == "gen_ai":
            attributes |= _as_indexed("gen_ai.prompt", whole[:sent], style)
        else:
            attributes |= _as_indexed("llm.input_messages", whole[:sent], style)
            attributes |= {"openinference.span.kind": "LLM", "llm.token_count.completion": 5}
        span = {"name": "chat", "start_time": f"2026-01-01T00:00:{sent:02d}Z"}
        context = {"trace_id": "0x1", "span_id": f"0x{sent}"}
        log.append({**span, "context": context, "attributes": attributes})

    (recording,), _ = read_lines(tmp_path, list(reversed(log)))

    assert recording.messages == whole
    assert recording.calls == tuple(range(1, len(whole) + 1, 2))


def test_the_other_shapes_of_spans_and_parts_are_read(tmp_path: Path) -> None:
    contents: list[Message] = [{"type": "text", "text": "Find"}, {"type": "image", "image": "u"}]
    answer = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
    ]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a key"}
    attributes = {
        **{
            f"llm.input_messages.0.message.contents.{i}.message_content.{key}": value
            for i, part in enumerate(contents)
            for key, value in part.items()
        },
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.1.message.content": json.dumps(answer),
        "llm.input_messages.2.message.role": "user",
        "llm.input_messages.2.message.content": json.dumps([result, {"type": "text", "text": "?"}]),
        "llm.input_messages.3.message.role": "user",
        "llm.input_messages.3.message.content": "[1, 2]",
        "llm.tools.0.tool.json_schema": json.dumps({"type": "function", "function": {}}),
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "[]",
    }
    span = {"span_id": "2", "attributes": attributes, "start_time": "2026-01-01T00:00:00Z"}
    chain = {"span_id": "1", "attributes": {"openinference.span.kind": "CHAIN"}, "children": [span]}
    path = tmp_path / "spans"
    path.write_text(json.dumps({"trace_id": "t", "spans": [chain]}, indent=4))

    (recording,), _ = read(path)

    assert recording.tools == [{"type": "function", "function": {}}]
    first, second, third, fourth, fifth = recording.messages[:5]
    assert first["content"].startswith("Find\n{")
    assert second["reasoning_content"] == "Hm."
    assert second["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": 1}'}
    assert third == {"role": "tool", "tool_call_id": "t1", "content": "a key"}
    assert fourth["content"] == "?"
    assert fifth["content"] == "[1, 2]"


def test_only_so_many_calls_of_traces_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = chat("key", 5)
    log = [
        {
            "traceId": str(trace),
            "spanId": str(sent),
            "startTimeUnixNano": sent,
            "attributes": {"gen_ai.input.messages": [_parts(m) for m in whole[:sent]]},
        }
        for sent in range(1, 12, 2)
        for trace in range(3)
    ]
    expected, _ = read_lines(tmp_path, log)
    monkeypatch.setattr(otel, "MAX_HELD_BYTES", 1_500)

    found, _ = read_lines(tmp_path, log)

    assert [r.calls for r in found] == [r.calls for r in expected] == [(1, 3, 5, 7, 9, 11)] * 3


def _parts(message: Message) -> Message:
    parts: list[Message] = [{"type": "text", "content": message["content"]}]
    if message["role"] == "assistant":
        fields = message["tool_calls"][0]
        parts = [{"type": "tool_call", "id": fields["id"], **fields["function"]}]
    elif message["role"] == "tool":
        given_back = {"id": message["tool_call_id"], "response": message["content"]}
        parts = [{"type": "tool_call_response", **given_back}]
    return {"role": message["role"], "parts": parts}


def test_times_counts_and_texts_are_taken_from_what_can_be_one() -> None:
    assert as_seconds("2026-01-01T00:00:00") == as_seconds("2026-01-01T00:00:00+00:00")
    assert as_seconds("1700000000") == as_seconds(1.7e18) == as_seconds(1.7e15) == 1.7e9
    no_times: list[Any] = [None, True, -1, 10**400, float("nan"), "soon", "9" * 50, []]
    assert {as_seconds(value) for value in no_times} == {None}
    assert as_count("12") == as_count(12) == 12
    no_counts: list[Any] = [None, True, -1, 10**400, "x", "²", 1.5]
    assert {as_count(value) for value in no_counts} == {None}
    assert as_json("{") == "{"
    assert as_text(None) == ""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert as_text(deep) == "[nested too deeply]"
    call = calls.LoggedCall(format="openai", messages=[{"content": deep}], size=1)
    tally = Tally()
    assert not list(calls.Grouping("log", tally).add(call, "log:1"))
    assert tally.examples[0].problem == "is nested too deeply"


def test_calls_of_gemini_and_bedrock_are_read_with_their_answers_and_bills(tmp_path: Path) -> None:
    ask = {"role": "user", "parts": [{"text": "Find it."}]}
    call = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
    result = {"functionResponse": {"name": "look", "response": {"output": "here"}}}
    told = {"role": "user", "parts": [result]}
    spoken = {"role": "model", "parts": [{"text": "Here."}]}
    billed = {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 2}
    gemini = [
        {"request": {"model": "gemini-2.5-pro", "contents": contents},
         "response": {"candidates": [{"content": answer}], "usageMetadata": billed}}
        for contents, answer in (([ask], call), ([ask, call, told], spoken))
    ]  # fmt: skip
    words = [{"role": "user", "content": [{"text": "Find it."}]}]
    answer = {"role": "assistant", "content": [{"text": "Here."}]}
    bedrock = {
        "request": {"modelId": "m", "messages": words, "inferenceConfig": {}},
        "response": {
            "output": {"message": answer},
            "usage": {"inputTokens": 3, "cacheReadInputTokens": 7, "outputTokens": 2},
        },
    }
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (*gemini, bedrock)))

    one, other = read(path)[0]

    assert (one.format, one.messages) == ("gemini", [ask, call, told, spoken])
    assert [(usage.prompt, usage.read) for usage in one.usage] == [(10, 4), (10, 4)]
    assert outputs(one) == (2, 2)
    assert (other.format, other.messages) == ("bedrock", [*words, answer])
    assert (other.usage[0].prompt, other.usage[0].read) == (10, 7)


def test_whether_thinking_was_on_is_read_from_the_body(tmp_path: Path) -> None:
    body = {
        "model": "claude-sonnet-4-5",
        "system": "You look for things.",
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "messages": [{"role": "user", "content": "Find it."}],
    }

    [recording], _ = read_lines(tmp_path, [body])

    assert recording.request().thinking is True
