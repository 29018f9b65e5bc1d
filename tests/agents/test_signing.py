import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agents.stage import without
from harness.signing import BETA, BOUND, MANUAL, Format, Json, Outcome, Place, Signer

FORMATS: tuple[Format, ...] = ("anthropic", "bedrock")
PATTERNS = ("T", "TXT", "TTX", "XT", "TT", "RXT", "X")
"""What answers say before they call a tool: thoughts, redacted ones, texts."""
HISTORIES = st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=7)
ELSEWHERE = "The block is bound to a different conversation."

Edit = Callable[[Json], None]


def text(format: Format, said: str) -> Json:
    return {"text": said} if format == "bedrock" else {"type": "text", "text": said}


def opening(format: Format = "anthropic", model: str = "claude-fable-5-1") -> Json:
    """Return the first request of a conversation."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    if format == "bedrock":
        tool = {"toolSpec": {"name": "read", "inputSchema": {"json": schema}}}
        system: Any = [{"text": "Be brief."}]
        body: Json = {"modelId": f"us.anthropic.{model}-v1:0", "toolConfig": {"tools": [tool]}}
    else:
        system = "Be brief."
        body = {"model": model, "max_tokens": 1_024}
        body["tools"] = [{"name": "read", "input_schema": schema}]
    messages = [{"role": "user", "content": [text(format, "Go.")]}]
    return {**body, "system": system, "messages": messages}


def tools_of(body: Json) -> list[Json]:
    found: list[Json] = (body.get("toolConfig") or body)["tools"]
    return found


def answer(
    signer: Signer, body: Json, pattern: str, *, format: Format = "anthropic", betas: str = ""
) -> list[Json]:
    """Return the content of an answer that thinks where the pattern says so."""
    step = len(body["messages"])
    said: list[Json] = []
    for letter in pattern:
        if letter == "X":
            said.append(text(format, f"Text {step}.{len(said)}"))
            continue
        thought = f"Thought {step}.{len(said)}"
        redacted = letter == "R"
        said.append(
            signer.think(body, thought, format=format, betas=betas, before=said, redacted=redacted)
        )
    use = {"name": "read", "input": {"path": f"{step}"}}
    if format == "bedrock":
        return [*said, {"toolUse": {"toolUseId": f"t{step}", **use}}]
    return [*said, {"type": "tool_use", "id": f"t{step}", **use}]


def go_on(
    signer: Signer, body: Json, pattern: str, *, format: Format = "anthropic", betas: str = ""
) -> None:
    """Append the answer to a request, and the result of its call."""
    content = answer(signer, body, pattern, format=format, betas=betas)
    step = len(body["messages"])
    result: Json = {"type": "tool_result", "tool_use_id": f"t{step}", "content": "lines"}
    if format == "bedrock":
        result = {"toolResult": {"toolUseId": f"t{step}", "content": [{"text": "lines"}]}}
    body["messages"] += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result]},
    ]


def conversation(
    patterns: list[str], format: Format = "anthropic", model: str = "claude-fable-5-1"
) -> Json:
    body = opening(format, model)
    for pattern in patterns:
        go_on(Signer(), body, pattern, format=format)
    return body


def thoughts(body: Json) -> list[Place]:
    """Return the places of the thinking blocks."""
    return [
        (n, m)
        for n, message in enumerate(body["messages"])
        for m, block in enumerate(message["content"])
        if block.get("type") in ("thinking", "redacted_thinking") or "reasoningContent" in block
    ]


def take_out(body: Json, places: list[Place]) -> None:
    body["messages"] = without(body, places)["messages"]


def judge(body: Json, format: Format) -> tuple[list[Place], list[Place]]:
    """Return the valid and the invalid blocks."""
    found = Signer().receive(body, format=format)
    assert bool(found.refusal) == bool(found.invalid)
    assert set(found.kept) | set(found.invalid) == set(thoughts(body))
    return list(found.kept), list(found.invalid)


def asks_to(behaviour: str, body: Json, format: Format = "anthropic") -> tuple[Json, str]:
    """Return a request that says what a mismatch does, and the header for it."""
    thinking = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": behaviour}}
    if format == "bedrock":
        fields = {"thinking": thinking, "anthropic_beta": ["a-beta", BETA]}
        return {**body, "additionalModelRequestFields": fields}, ""
    return {**body, "thinking": thinking}, f"a-beta,{BETA}"


# --- the table of live reports


def _unchanged(body: Json) -> None:
    pass


def _system_changed(body: Json) -> None:
    body["system"] = [text("bedrock" if "toolConfig" in body else "anthropic", "Be verbose.")]


def _tool_added(body: Json) -> None:
    tools_of(body).append(copy.deepcopy(tools_of(body)[0]))


def _thinking_stripped(body: Json) -> None:
    take_out(body, thoughts(body))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("edit", "refused"),
    [
        (_unchanged, False),
        (_system_changed, True),
        (_tool_added, True),
        (_thinking_stripped, False),
    ],
)
def test_the_provider_answers_as_live_reports_say(
    edit: Edit, refused: bool, format: Format
) -> None:
    body = conversation(["T", "TXT", "R"], format)
    edit(body)
    blocks = thoughts(body)
    verdict = Signer().receive(body, format=format)
    kept_going = Signer().receive(asks_to("drop_block", body, format)[0], betas=BETA, format=format)

    assert (ELSEWHERE in verdict.refusal) == bool(verdict.refusal) == refused
    assert verdict.refusal.startswith("messages.1.content.0: Invalid `signature`") == refused
    assert kept_going.refusal == ""
    assert list(kept_going.dropped) == (blocks if refused else [])
    assert [one["path"] for one in kept_going.transformations] == [
        f"messages.{n}.content.{m}" for n, m in kept_going.dropped
    ]


def test_the_refusal_reads_as_published_and_names_the_beta_only_where_it_is_missing() -> None:
    body = conversation(["T"])
    body["messages"][0]["content"] = "Stop."
    sentence = (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation. Remove the block, or set "
        '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )
    beta = f" That setting requires the `{BETA}` value in the `anthropic-beta` header."

    assert Signer().receive(body).refusal == sentence + beta
    assert Signer().receive(body, betas=f"x, {BETA}").refusal == sentence


# --- what is valid


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", BOUND)
def test_a_history_that_is_only_continued_is_never_refused(model: str, format: Format) -> None:
    body, signer = opening(format, model), Signer("error")
    for step in range(30):
        go_on(signer, body, PATTERNS[step % len(PATTERNS)], format=format)
        verdict = signer.receive(copy.deepcopy(body), format=format)
        assert verdict.refusal == ""
        assert list(verdict.kept) == thoughts(body)


@settings(deadline=None)
@given(HISTORIES, st.sampled_from(FORMATS), st.data())
def test_blocks_left_out_from_the_start_leave_the_others_valid(
    patterns: list[str], format: Format, data: st.DataObject
) -> None:
    body = conversation(patterns, format)
    places = thoughts(body)
    gone = data.draw(st.integers(0, len(places)))
    take_out(body, places[:gone])

    assert judge(body, format) == (thoughts(body), [])

    go_on(Signer(), body, "TXT", format=format)
    assert judge(body, format) == (thoughts(body), [])


@settings(deadline=None)
@given(HISTORIES.filter(lambda h: "".join(h).count("T") > 2), st.sampled_from(FORMATS), st.data())
def test_a_gap_makes_every_later_block_invalid_and_no_earlier_one(
    patterns: list[str], format: Format, data: st.DataObject
) -> None:
    body = conversation(patterns, format)
    places = thoughts(body)
    gap = data.draw(st.integers(1, len(places) - 2))
    take_out(body, [places[gap]])
    left = thoughts(body)

    assert judge(body, format) == (left[:gap], left[gap:])


@settings(deadline=None)
@given(HISTORIES, st.sampled_from(FORMATS), st.data())
def test_an_edit_makes_every_block_after_it_invalid_and_none_before_it(
    patterns: list[str], format: Format, data: st.DataObject
) -> None:
    body = conversation(patterns, format)
    messages = body["messages"]
    n = data.draw(st.integers(0, len(messages) - 1))
    m = data.draw(st.integers(0, len(messages[n]["content"])))
    messages[n]["content"].insert(m, text(format, "An edit."))
    places = thoughts(body)

    kept, invalid = judge(body, format)

    assert kept == [place for place in places if place < (n, m)]
    assert invalid == [place for place in places if place > (n, m)]


@settings(deadline=None)
@given(HISTORIES, st.data())
def test_cache_marks_may_move(patterns: list[str], data: st.DataObject) -> None:
    body = conversation(patterns)
    blocks = [b for message in body["messages"] for b in message["content"]]
    plain = [b for b in blocks if b["type"] in ("text", "tool_use", "tool_result")]
    for block in data.draw(st.lists(st.sampled_from(plain), max_size=4)):
        block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    body["tools"][-1]["cache_control"] = {"type": "ephemeral"}

    assert judge(body, "anthropic") == (thoughts(body), [])


def test_a_text_is_the_same_as_a_string_and_as_one_block() -> None:
    body = conversation(["T", "XT"])
    body["messages"][0]["content"] = "Go."
    body["system"] = [{"type": "text", "text": "Be brief."}]
    body["messages"][2]["content"][0]["content"] = [{"type": "text", "text": "lines"}]
    body["messages"][3]["content"][0]["citations"] = None

    assert Signer().receive(body).refusal == ""


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("left_out", [1, 2])
def test_an_older_block_that_was_not_sent_before_makes_the_newer_ones_invalid(
    left_out: int, format: Format
) -> None:
    body = conversation(["T", "T"], format)
    whole = copy.deepcopy(body["messages"])
    take_out(body, thoughts(body)[:left_out])
    go_on(Signer(), body, "T", format=format)
    go_on(Signer(), body, "T", format=format)
    assert judge(body, format) == (thoughts(body), [])

    body["messages"][:4] = whole[:4]

    assert judge(body, format) == ([(1, 0), (3, 0)], [(5, 0), (7, 0)])


def test_the_nonce_in_the_billing_line_of_claude_code_is_not_compared() -> None:
    body = opening()
    line = "x-anthropic-billing-header: cc_version=2.1; cch={};"
    body["system"] = [{"type": "text", "text": line.format("0af3")}]
    go_on(Signer(), body, "T")
    body["system"] = [{"type": "text", "text": line.format("99b1")}]
    assert Signer().receive(body).refusal == ""

    body["system"] = [{"type": "text", "text": line.format("99b1") + " And more."}]
    assert "The `system` prompt differs" in Signer().receive(body).refusal


# --- after a drop


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_produced_after_a_drop_is_valid_as_long_as_the_setting_comes_along(
    format: Format,
) -> None:
    body = conversation(["T", "TXT"], format)
    old = thoughts(body)
    _system_changed(body)
    for _ in range(3):
        asked, betas = asks_to("drop_block", body, format)
        go_on(Signer(), asked, "TXT", format=format, betas=betas)
        body["messages"] = asked["messages"]
        verdict = Signer().receive(asked, betas=betas, format=format)
        assert verdict.refusal == ""
        assert list(verdict.dropped) == old
        assert list(verdict.kept) == thoughts(body)[len(old) :]

    assert ELSEWHERE in Signer().receive(body, format=format).refusal

    take_out(body, old)
    assert judge(body, format) == (thoughts(body), [])


# --- what is refused whatever the setting


def _other_text(block: Json) -> None:
    block["thinking"] += "!"


def _other_signature(block: Json) -> None:
    block["signature"] = block["signature"][:-8] + "AAAAAAA="


def _no_base64(block: Json) -> None:
    block["signature"] = "sig-?"


@pytest.mark.parametrize("spoil", [_other_text, _other_signature, _no_base64])
@pytest.mark.parametrize("model", ["claude-fable-5-1", "claude-opus-5-5", "claude-opus-4-8"])
def test_an_altered_block_is_refused_whatever_a_mismatch_does(model: str, spoil: Edit) -> None:
    body = conversation(["T", "T"], model=model)
    spoil(body["messages"][3]["content"][0])
    asked, betas = asks_to("drop_block", body)
    words = "messages.3.content.0: Invalid `signature` in `thinking` block"

    assert Signer("drop").receive(body).refusal == words
    assert Signer().receive(asked, betas=betas).refusal == words


@pytest.mark.parametrize("model", BOUND)
def test_manual_thinking_is_refused_on_bound_models(model: str) -> None:
    manual = {"thinking": {"type": "enabled", "budget_tokens": 1_024}}

    assert Signer().receive({**opening(model=model), **manual}).refusal == MANUAL
    assert Signer().receive({**opening(model="claude-sonnet-4-5"), **manual}).refusal == ""


# --- settings


@pytest.mark.parametrize(
    ("model", "switch", "asked", "expected"),
    [
        *((model, None, None, outcome) for model, outcome in BOUND.items()),
        *((model, "error", None, "error") for model in BOUND),
        *((model, "drop", None, "drop") for model in BOUND),
        ("claude-opus-5-5", None, "error", "error"),
        ("claude-fable-5-2", None, "drop_block", "drop"),
        ("claude-fable-5-2", "record", "error", "error"),
        ("claude-mythos-5-1", None, "error", "record"),
        ("claude-mythos-5-1", "error", "drop_block", "drop"),
        ("claude-opus-5", "error", "error", None),
    ],
)
@pytest.mark.parametrize("format", FORMATS)
def test_a_mismatch_does_what_the_request_says_or_else_the_switch_or_else_the_model(
    model: str, switch: Outcome | None, asked: str | None, expected: Outcome | None, format: Format
) -> None:
    body, betas = conversation(["T", "T"], format, model), ""
    _system_changed(body)
    if asked is not None:
        body, betas = asks_to(asked, body, format)
    verdict = Signer(switch).receive(body, betas=betas, format=format)

    assert bool(verdict.refusal) == (expected == "error")
    assert bool(verdict.dropped) == (expected == "drop")
    assert bool(verdict.invalid) == (expected is not None)
    assert bool(verdict.kept) == (expected is None)


@pytest.mark.parametrize("outcome", ["drop", "record"])
def test_what_was_done_is_reported_only_under_the_beta(outcome: Outcome) -> None:
    body = conversation(["T", "T"])
    whole = Signer(outcome).receive(body, betas=BETA)
    _system_changed(body)
    silent = Signer(outcome).receive(body)
    told = Signer(outcome).receive(body, betas=f"a,{BETA}")
    kind = "thinking_dropped" if outcome == "drop" else "thinking_mismatch_allowed"

    assert (whole.reports, whole.transformations) == (True, ())
    assert (silent.reports, silent.transformations) == (False, ())
    assert silent.invalid == told.invalid == ((1, 0), (3, 0))
    assert [one["type"] for one in told.transformations] == [kind, kind]
