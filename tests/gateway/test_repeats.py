"""With `compression.repeats` what a result repeats goes on as a reference, and is counted."""

import json
import time
from http.client import HTTPConnection
from typing import Any

import pytest

from agora.adapters import validate
from agora.core.compression import Rung
from agora.core.prices import sheet_for
from agora.core.reading.repeats import Shown, expanding
from agora.gateway.config import Compression
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Edited, Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import MESSAGES
from agora.scorers.features import FeaturesScorer
from agora.wrapping.account import account_of
from harness.gateway.cached_upstream import Cached, PrefixCache
from harness.gateway.histories import Body, observation
from harness.gateway.loopback import config_for, gateway, serving
from tests.gateway.test_continue import MAKERS, ROUTES, body_of, continues

MODELS = {"anthropic": "claude-sonnet-4-6"}
SHOWN = "lines left out, unchanged, shown above"


def rereading(format: str, steps: int, size: int = 1_500) -> Body:
    """Return a body in which every third step reads what the one two before it did."""
    asked = MAKERS[format](steps, size)
    text = json.dumps(asked)
    for number in range(4, steps + 1, 3):
        own, earlier = (json.dumps(observation(n, size)) for n in (number, number - 2))
        text = text.replace(own, earlier)
    made: Body = json.loads(text)
    return made


def results_in(body: bytes) -> list[str]:
    """Return the texts of the results of a body."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                walk(each)
        elif isinstance(value, dict):
            if value.get("role") == "tool" or value.get("type") == "tool_result":
                found.append(value["content"])
            elif value.get("type") == "function_call_output":
                found.append(value["output"])
            else:
                walk(list(value.values()))

    walk(json.loads(body))
    return found


def code_in(body: bytes) -> str:
    """Return the code in the first reference of a body."""
    return body.decode().split(f"{SHOWN} #", 1)[1].split("]", 1)[0]


def edited(editor: Editor, body: bytes, format: str) -> Edited:
    sheet = sheet_for(MODELS.get(format, "gpt-5"))
    job = Job(body=body, route=ROUTES[format], sheet_of=lambda _: sheet)
    return editor.look(job).edited or editor(job)


def make_editor() -> Editor:
    return Editor(EditorSettings(scorer=FeaturesScorer(), repeats=True))


@pytest.mark.parametrize("format", ROUTES)
def test_calls_begin_like_the_one_before_and_expand_to_the_clients_own_text(format: str) -> None:
    editor, before = make_editor(), b""
    for steps in range(2, 11):
        body = body_of(rereading(format, steps), ROUTES[format].field)
        outcome = edited(editor, body, format)
        assert not outcome.epoch
        assert continues(outcome.body, before)
        before = outcome.body
        if steps < 4:
            assert outcome.body == body
            continue
        assert outcome.reason == "shortened_at_arrival"
        # Nothing failed: an alert on the fallback rule must not fire.
        assert outcome.rung is Rung.SCORED
        assert outcome.arrived == outcome.tokens_before - outcome.tokens_after > 0
        expand = expanding(Shown(), code_in(outcome.body))
        assert [expand(text) for text in results_in(outcome.body)] == results_in(body)


@pytest.mark.parametrize("format", ROUTES)
def test_with_edits_too_bytes_are_the_same_with_a_memory_and_without(format: str) -> None:
    editor, edits = make_editor(), set()
    for steps in range(4, 44):
        body = body_of(rereading(format, steps), ROUTES[format].field)
        outcome = edited(editor, body, format)
        alone = edited(make_editor(), body, format)
        assert outcome.body == alone.body
        assert (outcome.reason, outcome.arrived) == (alone.reason, alone.arrived)
        sent = json.loads(outcome.body)
        field = ROUTES[format].field
        beside = {"system": sent.get("system"), "tools": sent.get("tools")}
        assert not validate(sent[field], format=format, **beside)
        edits.add(outcome.epoch)
    assert len(edits) > 1


def test_the_same_call_again_is_answered_from_memory_and_counted_alike() -> None:
    editor = make_editor()
    body = body_of(rereading("anthropic", 9), "messages")
    first = edited(editor, body, "anthropic")
    job = Job(body=body, route=MESSAGES, sheet_of=lambda _: sheet_for("claude-sonnet-4-6"))
    again = editor.look(job).edited

    assert again is not None
    assert (again.body, again.reason, again.arrived) == (first.body, first.reason, first.arrived)


def ask(door: str, body: bytes) -> None:
    """Send a body through a gateway."""
    connection = HTTPConnection(door.removeprefix("http://"), timeout=20)
    connection.request("POST", "/v1/messages", body, {"x-api-key": "sk-1"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200


@pytest.mark.parametrize(("last", "edits"), [(14, 0), (22, 1)])
def test_a_gateway_claims_what_references_saved(last: int, edits: int) -> None:
    upstream, direct = Cached(), PrefixCache()
    read = written = 0
    with serving(upstream) as url:
        config = config_for(url, compression=Compression(repeats=True))
        with gateway(config) as (door, app):
            for steps in range(2, last + 1):
                body = body_of(rereading("anthropic", steps), "messages")
                call = direct.call(body)
                read, written = read + call.read, written + call.written
                ask(door, body)
            until = time.monotonic() + 10
            while app.open_requests and time.monotonic() < until:
                time.sleep(0.01)
            counted = app.forwarder.meter.snapshot()
    claimed = counted.net_dollars()
    bill, sheet = upstream.bills["sk-1"], sheet_for("claude-sonnet-4-6")
    saved = (read - bill["read"]) * sheet.read + (written - bill["written"]) * sheet.write

    assert bill["breaks"] == edits
    assert saved > 0
    arrived = counted.total("agora_tokens_left_out_at_arrival_total")
    assert 0 < arrived <= counted.total("agora_tokens_removed_total")
    account = account_of(counted)
    assert account.edited == last - 3
    assert f"{int(arrived):,} of them at arrival" in account.line()
    # Nobody bills what was never sent: it is counted by us, and this upstream counts by bytes.
    assert claimed == pytest.approx(saved * sheet.input / 1e6, rel=0.15)
