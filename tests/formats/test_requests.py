from typing import Any

import pytest

from agora.core import Request
from agora.errors import UnknownFormatError
from agora.formats import (
    detect,
    parse,
    read_request,
    recall_tool,
)

# Private: which tools offer recall, in every shape of tools.
from agora.formats.tools import offers_recall

USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER], "openai"),
        ([{"role": "system", "content": "x"}, USER], "openai"),
        ([USER, {"role": "assistant", "tool_calls": []}], "openai"),
        ([USER, {"role": "tool", "content": "x"}], "openai"),
        ([{"role": "function"}, {"role": "user", "content": [{"text": "hi"}]}], "openai"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "openai"),
        ([{"role": "system", "content": "x"}, {"type": "function_call"}], "responses"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "responses"),
        ([USER, {"role": "assistant", "content": [{"type": "tool_use"}]}], "anthropic"),
        ([{"role": "user", "content": [{"type": "text"}, {"type": "tool_result"}]}], "anthropic"),
        ([{"role": "user", "content": [{"type": "image", "source": {}}]}], "anthropic"),
        (["odd", {"role": "user", "content": ["odd"]}], "openai"),
        ([{"role": "user", "parts": [{"text": "hi"}]}], "gemini"),
        ([{"parts": [{"text": "hi"}]}], "gemini"),
        ([{"role": "user", "content": [{"text": "hi"}]}], "bedrock"),
        ([{"role": "user", "content": ["odd", {"cachePoint": {}}]}], "bedrock"),
        ([USER, {"role": "assistant", "content": [{"toolUse": {}}]}], "bedrock"),
        ("[USER] hi [ASSISTANT] x", "transcript"),
    ],
)
def test_the_format_of_messages_is_found_out(messages: Any, expected: str) -> None:
    assert detect(messages) == expected


@pytest.mark.parametrize("messages", ["hello", None, 3, {"a": 1}])
def test_what_no_format_fits_is_refused_with_the_formats_there_are(messages: Any) -> None:
    with pytest.raises(UnknownFormatError, match="the formats are openai"):
        detect(messages)


@pytest.mark.parametrize("name", ["openai", "responses", "anthropic", "gemini", "bedrock"])
def test_the_recall_tool_of_a_format_is_found_among_its_tools(name: str) -> None:
    assert offers_recall(["odd", {"name": "other"}, recall_tool(name)])
    assert offers_recall({"tools": [recall_tool(name)]})
    assert recall_tool(name) == recall_tool(name)


@pytest.mark.parametrize(
    "tools",
    [
        None,
        [],
        [{"function": {"name": "look"}}],
        "agora_recall",
        {"tools": None},
        [{"functionDeclarations": ["odd", {"name": "look"}]}],
        [{"toolSpec": {"name": "look"}}],
    ],
)
def test_recall_is_not_offered_where_the_tool_is_not(tools: Any) -> None:
    assert not offers_recall(tools)


def test_text_formats_have_no_recall_tool() -> None:
    with pytest.raises(UnknownFormatError, match="no tools"):
        recall_tool("transcript")


def test_a_chat_body_is_taken_apart_and_put_together_again() -> None:
    body = {"model": "m", "messages": [USER], "tools": [1], "temperature": 0}
    request = read_request(body)

    assert (request.format, request.model, request.tools) == ("openai", "m", [1])
    assert request.with_messages([]) == {**body, "messages": []}


def test_a_body_with_system_text_beside_its_messages_is_anthropics() -> None:
    body = {"messages": [USER], "system": "x", "thinking": {"type": "enabled"}}

    assert read_request(body).format == "anthropic"
    assert read_request(body).thinking is True
    assert read_request({**body, "thinking": {"type": "disabled"}}).thinking is False
    assert read_request({"messages": [USER]}, format="anthropic").format == "anthropic"


def test_a_gemini_body_is_taken_apart_in_either_spelling() -> None:
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    body = {
        "contents": contents,
        "systemInstruction": {"parts": [{"text": "x"}]},
        "tools": [{"googleSearch": {}}],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}},
    }
    request = read_request(body)

    assert (request.format, request.field, request.thinking) == ("gemini", "contents", False)
    assert (request.system, request.tools) == (body["systemInstruction"], body["tools"])
    assert request.with_messages([]) == {**body, "contents": []}
    snake = {"contents": contents, "system_instruction": "x", "model": "gemini-3-pro"}
    thinks = {"generation_config": {"thinking_config": {"thinking_level": "high"}}}
    assert read_request(snake).system == "x"
    assert read_request(snake | thinks).thinking is True
    assert read_request({"contents": contents, "generationConfig": {}}).thinking is None
    assert read_request({"contents": contents, "generationConfig": 1}).thinking is None


def test_a_converse_body_is_taken_apart() -> None:
    messages = [{"role": "user", "content": [{"text": "hi"}]}]
    config = {"tools": [{"toolSpec": {"name": "look"}}]}
    request = read_request({"messages": messages, "toolConfig": config, "modelId": "nova"})

    assert (request.format, request.model, request.tools) == ("bedrock", "nova", config)
    assert read_request({"messages": messages, "system": [{"text": "x"}]}).system == [{"text": "x"}]
    for fields in ({"thinking": {"type": "enabled"}}, {"reasoning_config": {"type": "enabled"}}):
        more = {"additionalModelRequestFields": fields}
        assert read_request({"messages": [USER], **more}).thinking is True


@pytest.mark.parametrize(
    "field", ["toolConfig", "inferenceConfig", "additionalModelRequestFields", "modelId"]
)
def test_one_field_that_only_converse_has_decides_where_messages_do_not(field: str) -> None:
    messages = [{"role": "user", "content": []}]

    assert read_request({"messages": messages, field: {}}).format == "bedrock"
    assert read_request({"messages": messages}).format == "openai"


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_history_on_the_server_is_noticed(field: str) -> None:
    assert read_request({"input": "hi", field: "x"}).server_side
    assert not read_request({"input": "hi"}).server_side


def test_a_body_without_messages_is_refused() -> None:
    with pytest.raises(UnknownFormatError, match="neither messages nor input nor contents"):
        read_request({"prompt": "hi"})


def test_a_format_that_nobody_reads_is_named() -> None:
    with pytest.raises(UnknownFormatError, match="there is no format 'mistral'"):
        parse(Request(messages=[USER], format="mistral"))


def test_items_of_one_format_are_read_under_the_name_that_others_give_to_messages() -> None:
    items = [{"type": "message", "role": "user", "content": "hi"}]

    request = read_request({"messages": items})

    assert (request.format, request.field, request.messages) == ("responses", "messages", items)


def test_gemini_reads_the_schema_of_the_recall_tool_as_json_schema() -> None:
    [declared] = recall_tool("gemini")["functionDeclarations"]
    assert set(declared) == {"name", "description", "parametersJsonSchema"}
