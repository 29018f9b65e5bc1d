import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora import Budget, Compressor

# Private: any text as a page: properties of the data behind it.
from agora.cli import explain_page
from agora.cli.explain_page import MOST_OF_A_TEXT, account, page, readable
from agora.cli.options import Setup
from agora.cli.source import Source
from agora.formats import read_request
from harness.html_pages import ATTACKS, Elements
from harness.shortened import is_edited
from tests.cli.conftest import EVERY_CALL, Run, Write, chat


def said(body: Any, **options: Any) -> dict[str, Any]:
    """Return the page's data for a body, as a browser reads it."""
    setup = Setup(compressor=Compressor(**{"edits": "every_call", **options}))
    source = Source(name="logs/request.json", request=read_request(body))
    said = account(setup.compress(source), source, setup)
    value: dict[str, Any] = json.loads(json.dumps(said))
    return value


def html(body: Any) -> Elements:
    setup = Setup(compressor=Compressor(edits="every_call"))
    source = Source(name="request.json", request=read_request(body))
    return Elements(page(setup.compress(source), source, setup))


def sent(data: dict[str, Any]) -> list[str]:
    """Return the texts in the page's column "after"."""
    return [
        "".join(row["after"]) if "after" in row else row["before"]
        for row in data["rows"]
        if not row.get("gone")
    ]


@settings(max_examples=40, deadline=None)
@given(text=st.sampled_from(ATTACKS) | st.text(max_size=200))
def test_whatever_stands_in_a_message_comes_back_as_data_and_never_as_markup(text: str) -> None:
    messages = chat(12)
    messages[1]["content"] = text
    for message in messages[3::2]:
        message["content"] = text * 40
    shown, plain = html(messages), html(chat(12))

    assert shown.tags == plain.tags
    assert shown.inside["script"][1] == plain.inside["script"][1]
    data = json.loads(shown.inside["script"][0])
    assert data["rows"][1]["before"] == json.loads(json.dumps(text))


def test_the_page_fetches_nothing_and_its_policy_says_so() -> None:
    elements = html(chat(12))

    for tag, attributes in elements.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form", "video"}
        assert not {"src", "srcset", "action", "style"} & attributes.keys()
    policy = next(a["content"] for _, a in elements.tags if "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "__" not in policy
    for word in ("fetch(", "innerHTML", "eval(", "import("):
        assert word not in elements.inside["script"][1]


def test_the_two_sides_are_the_messages_given_and_the_messages_sent() -> None:
    messages = chat(12)
    data = said(messages)
    compression = Compressor(edits="every_call").compress(messages)

    assert [row["before"] for row in data["rows"]] == [readable(one, "openai") for one in messages]
    assert sent(data) == [readable(one, "openai") for one in compression.messages]
    assert data["before"] == compression.tokens_before
    assert data["after"] == compression.tokens_after


def test_every_message_knows_its_step_and_every_step_its_decision() -> None:
    data = said(chat(12))

    assert [row["step"] for row in data["rows"][2:]] == [n for n in range(1, 13) for _ in "ab"]
    assert [step[0] for step in data["steps"]] == list(range(1, 13))
    gone = {row["step"] for row in data["rows"] if row.get("gone")}
    elided = {step[0] for step in data["steps"] if step[1] == "elided"}
    noted = {step[0] for step in data["steps"] if "its call stays" in step[2]}
    assert gone == elided - noted


@pytest.mark.parametrize(
    "text",
    [
        "[SYSTEM] Be brief.\n[USER] Find it.\n" + "[ASSISTANT] open box\n[USER] shut it is\n" * 9,
        "[USER] Find it.\n" + "[ASSISTANT] open\n[USER] shut\n" * 9 + "[ASSISTANT] and now",
    ],
)
def test_of_a_prompt_that_is_one_text_the_two_sides_are_the_texts(text: str) -> None:
    data = said(text)
    compression = Compressor(edits="every_call").compress(text)

    assert "".join(row["before"] for row in data["rows"]) == text
    assert "".join(sent(data)) == compression.messages


def test_a_masked_step_keeps_its_messages_and_shows_its_marker() -> None:
    messages: list[Any] = [{"role": "user", "content": "Find it."}]
    for n in range(8):
        use = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"part": n}}
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "x = 1\n" * 60}
        messages += [
            {"role": "assistant", "content": [thought, use]},
            {"role": "user", "content": [result]},
        ]
    data = said({"messages": messages, "system": "Be brief.", "tools": [{"name": "read"}]})

    assert [row["who"] for row in data["rows"][:2]] == ["system", "tools"]
    assert not any(row.get("gone") for row in data["rows"])
    assert any(is_edited(row["after"][1]) for row in data["rows"] if "after" in row)
    assert "its call stays" in {step[2] for step in data["steps"]}


def test_by_price_every_edit_so_far_is_marked_and_the_last_is_in_force() -> None:
    data = said({"model": "claude-sonnet-5", "messages": chat(120)}, edits="by_price")

    assert len(data["epochs"]) > 1
    assert data["epochs"][-1] == data["epoch"]


def test_at_every_call_only_the_newest_edit_is_marked() -> None:
    assert said(chat(12))["epochs"] == [12]


def test_a_prompt_that_stays_says_why_and_has_no_epoch() -> None:
    data = said(chat(12), budget=Budget(keep_ratio=1.0))

    assert not data["changed"]
    assert data["why"] == "the prompt already fits the budget."
    assert data["epochs"] == []
    assert not any("after" in row or "gone" in row for row in data["rows"])


@pytest.mark.parametrize(
    "body",
    [
        [{"role": "user", "content": "hi"}],
        {"input": [{"role": "user", "content": "hi"}], "previous_response_id": "r"},
        chat(12)[:-1],
        {"input": "hi"},
    ],
)
def test_what_cannot_be_shortened_is_a_page_all_the_same(body: Any) -> None:
    data = said(body)

    assert data["rows"]
    assert data["why"]


def test_a_very_long_message_is_cut_and_says_by_how_much() -> None:
    messages = chat(4)
    messages[3]["content"] = "x" * (MOST_OF_A_TEXT + 1_234)
    [row] = [row for row in said(messages)["rows"] if row["before"].startswith("xxx")]

    assert row["before"].endswith("\n… 1,234 more characters")


def test_of_a_giant_prompt_later_messages_keep_a_few_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain_page, "MOST_TEXT", 1_000)
    rows = said(chat(12, lines=60))["rows"]

    assert max(len(row["before"]) for row in rows[-4:]) < 500
    assert "more characters" in rows[-1]["before"]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=14))
def test_of_any_text_the_side_after_is_what_is_sent(texts: list[str]) -> None:
    steps = [f"[ASSISTANT] {text}\n[USER] {text * 9}\n" for text in texts]
    prompt = "[USER] Find it.\n" + "".join(steps)
    data = said(prompt)
    compression = Compressor(edits="every_call").compress(prompt)

    assert "".join(sent(data)) == json.loads(json.dumps(compression.messages))


@pytest.mark.parametrize(
    ("message", "format", "text"),
    [
        ({"type": "function_call", "name": "look", "arguments": "{}"}, "responses", "look {}"),
        ({"type": "function_call_output", "output": "a door"}, "responses", "a door"),
        ({"type": "reasoning", "id": "r"}, "responses", '{"type": "reasoning", "id": "r"}'),
        ({"role": "model", "parts": [{"functionCall": {"name": "look"}}]}, "gemini", "look {}"),
        (
            {"role": "assistant", "tool_calls": [3]},
            "openai",
            '{"role": "assistant", "tool_calls": [3]}',
        ),
        (["odd"], "openai", '["odd"]'),
    ],
)
def test_a_message_reads_as_what_it_says(message: Any, format: str, text: str) -> None:
    assert readable(message, format) == text


def test_the_command_writes_the_page_and_says_where(run: Run, write: Write, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    result = run("explain", *EVERY_CALL, write(chat(12)), "--html", str(target))

    assert result.exit_code == 0
    assert f"The page: {target}" in result.stdout
    assert "steps kept" in result.stdout
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("kind", ["replay", "explain"])
def test_both_pages_have_the_same_head_and_style(kind: str) -> None:
    from agora.pages import write_page

    package = {"replay": "agora.replay", "explain": "agora.cli"}[kind]
    name = {"replay": "page.html", "explain": "explain_page.html"}[kind]
    text = write_page(package, name, {})

    assert "__" not in text.split("<script>")[0].replace("__proto__", "")
    assert text.count("prefers-reduced-motion") == 1
    assert text.count("const data = JSON.parse") == 1
