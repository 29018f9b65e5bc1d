"""The time to live of a body, found in its bytes as it is found in its objects."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.adapters.lifetimes import asked_ttl
from agora.adapters.request import read_request
from agora.core.prices import PriceSheet, Tier, sheet_for
from agora.gateway.body import elements, fields
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Job
from agora.gateway.editing.lifetimes import Known, newest_mark, ttl_in
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import MESSAGES
from agora.gateway.watching.bill import Billed, Sent, net_saving
from agora.gateway.watching.shadow import Would, predicted_saving
from agora.scorers.recency import RecencyScorer
from harness.gateway.histories import messages

MARKS = st.sampled_from(
    [None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "5m"}, {"ttl": "1h", "type": "x"}]
)
TEXTS = st.sampled_from(['"cache_control"', '{"cache_control": {"ttl": "1h"}}', "Größe", "\\", ""])


def marked(value: dict[str, Any], mark: Any) -> dict[str, Any]:
    return value if mark is None else {**value, "cache_control": mark}


blocks = st.lists(
    st.builds(lambda text, mark: marked({"type": "text", "text": text}, mark), TEXTS, MARKS),
    min_size=1,
    max_size=3,
)
bodies = st.builds(
    lambda said, system, tool, whole: marked(
        {
            "model": "claude-opus-5",
            "messages": [{"role": "user", "content": content} for content in said],
            "system": system,
            "tools": [marked({"name": "t", "description": "cache_control"}, tool)],
        },
        whole,
    ),
    st.lists(blocks, min_size=1, max_size=3),
    blocks,
    MARKS,
    MARKS,
)


@settings(max_examples=300, deadline=None)
@given(body=bodies, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_bytes_and_objects_say_the_same(
    body: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    raw = json.dumps(body, indent=indent, ensure_ascii=ascii_only).encode()
    spans = fields(raw)

    assert spans is not None
    assert ttl_in(raw, spans, ["messages", "system", "tools", "toolConfig"]) == asked_ttl(
        read_request(body)
    )


@given(body=bodies, data=st.data())
def test_what_is_known_of_the_older_messages_says_the_same(
    body: dict[str, Any], data: st.DataObject
) -> None:
    raw = json.dumps(body).encode()
    spans = fields(raw)
    assert spans is not None
    start, end = spans["messages"]
    ends = [stop for _, stop in elements(raw, (start, end)) or ()]
    middle = data.draw(st.sampled_from(ends))
    known = Known(middle, newest_mark(raw, start, middle))

    assert newest_mark(raw, start, end) == newest_mark(raw, start, end, known)
    assert newest_mark(raw, start, end) == newest_mark(raw, start, end, Known(middle, None))
    newest = newest_mark(raw, start, end, known)
    assert ttl_in(raw, spans, ["system", "tools"], newest) == asked_ttl(read_request(body))


@given(raw=st.binary(max_size=60))
def test_nothing_makes_it_fail(raw: bytes) -> None:
    odd = b'{"messages":["cache_control":' + raw

    assert ttl_in(odd, {"messages": (12, len(odd))}, ["messages"]) in (None, "1h")
    assert ttl_in(b'{"a":[1' * 9, {"cache_control": (0, 60)}, ["messages"]) is None
    assert ttl_in(b'["cache_control"]', {"messages": (0, 17)}, ["messages"]) is None


def same(sheet: PriceSheet, _: str | None) -> PriceSheet:
    return sheet


def test_a_conversation_is_edited_by_the_prices_of_its_own_time_to_live() -> None:
    sheet = sheet_for("claude-opus-5")
    editor = Editor(EditorSettings(scorer=RecencyScorer()))
    asked = messages(60)
    found = {}
    for ttl in ("5m", "1h"):
        mark = {"type": "ephemeral", "ttl": ttl}
        asked["system"] = [{"type": "text", "text": "Be brief.", "cache_control": mark}]
        edited = editor(
            Job(body=json.dumps(asked).encode(), route=MESSAGES, sheet_of=lambda _: sheet)
        )
        assert edited.conversation is not None
        assert edited.conversation.ttl == ttl
        alone = Editor(EditorSettings(scorer=RecencyScorer(), memory_bytes=0))
        settled = sheet.for_ttl(ttl)
        again = alone(
            Job(body=json.dumps(asked).encode(), route=MESSAGES, sheet_of=partial(same, settled))
        )
        assert edited.body == again.body
        found[ttl] = edited.epoch
    # Another edit: at twice the price of writing it is due later.
    assert found["1h"] != found["5m"]


@pytest.mark.parametrize("written_1h", [None, 0, 400, 1_000])
def test_what_was_written_for_an_hour_costs_what_an_hour_costs(written_1h: int | None) -> None:
    sheet = sheet_for("claude-opus-5").as_billed(1_000, written_1h)
    hour = written_1h or 0

    dollars = sheet.dollars(read=5_000, written=1_000)
    assert dollars == pytest.approx((500 + 2.0 * hour + 1.25 * (1_000 - hour)) * 5 / 1e6)


def test_a_prompt_that_an_edit_keeps_below_a_tier_saves_the_whole_difference() -> None:
    flat = PriceSheet(name="x", input=1.0, read=0.1, write=1.25, output=2.0)
    sheet = replace(flat, tiers=(Tier(100_000, 5.0, 5.0),))
    billed = Billed(read=89_000, written=1_000, output=500)
    sent = Sent(tokens_in=120_000, tokens_out=90_000, new_tokens=1_000)

    whole = (119_000 * 0.1 + 1_000 * 1.25) * 5 + 500 * 2 * 5
    edited = 89_000 * 0.1 + 1_000 * 1.25 + 500 * 2
    assert net_saving(sheet, billed, sent) == pytest.approx((whole - edited) / 1e6)
    assert net_saving(flat, billed, sent) == pytest.approx(30_000 * 0.1 / 1e6)
    would = Would(tokens_before=120_000, tokens_after=90_000)
    unedited = Billed(read=119_000, written=1_000, output=500)
    assert predicted_saving(sheet, unedited, would) == pytest.approx((whole - edited) / 1e6)
