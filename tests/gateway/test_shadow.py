"""Shadow mode: the client's own bytes go on, and what an edit would have done is counted."""

import gzip
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

import agora
from agora.core.prices import PriceSheet, sheet_for
from agora.core.trajectory import Anchor, Step
from agora.gateway.app import App
from agora.gateway.config import Compression, Limits, parse_config
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.hindsight import ranges
from agora.gateway.editing.job import Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CHAT
from agora.gateway.watching.bill import Billed
from agora.gateway.watching.shadow import Would, blocks_of, predicted_saving, shared_bytes
from agora.gateway.watching.snapshot import Snapshot
from agora.scorers.features import FeaturesScorer
from harness.gateway.cached_upstream import Cached, PrefixCache, real_tokens
from harness.gateway.histories import chat, messages
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.odd_bodies import odd_bodies
from harness.gateway.strict_upstream import StrictUpstream

SHADOW = Compression(min_tokens=200, mode="shadow")
PATHS = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
}


def settled(app: App) -> Snapshot:
    """Return what was counted once everything is: decisions may outlast the answers."""
    until = time.monotonic() + 20
    while (app.open_requests or app.forwarder.undecided) and time.monotonic() < until:
        time.sleep(0.005)
    return app.forwarder.meter.snapshot()


def post(url: str, body: bytes, **headers: str) -> tuple[int, dict[str, str]]:
    told = {"content-type": "application/json", **headers}
    asked = urllib.request.Request(url, body, told)  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            answer.read()
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)


def grown(steps: int, size: int = 1_500) -> list[bytes]:
    """Return the calls of one agent, one step more each time."""
    turns = messages(steps, size)["messages"]
    return [with_turns(turns[: 1 + 2 * n]) for n in range(1, steps + 1)]


def with_turns(turns: list[Any]) -> bytes:
    """Return a body whose messages come last, so that it grows at its end."""
    others = {key: value for key, value in messages(0).items() if key != "messages"}
    return json.dumps({**others, "messages": turns}).encode()


def test_the_mode_is_read_from_the_file_and_said_at_the_start() -> None:
    text = '[[upstreams]]\nbase_url = "https://a.test"\nformats = ["openai"]\n'
    config = parse_config(text + '[compression]\nmode = "shadow"\n')

    assert config.compression.mode == "shadow"
    assert any("shadow" in note for note in config.notes())
    assert not any("shadow" in note for note in parse_config(text).notes())


def test_every_body_goes_on_byte_for_byte_whatever_it_is() -> None:
    upstream = StrictUpstream()
    none: dict[str, str] = {}
    sent = [(PATHS[format], body, none) for format, body in odd_bodies(40, seed=3)]
    long = json.dumps(chat(40, 2_000)).encode()
    sent += [
        ("/v1/chat/completions", long, {}),
        ("/v1/chat/completions", gzip.compress(long), {"content-encoding": "gzip"}),
        ("/v1/chat/completions", b"[" * 100, {}),
        ("/v1/chat/completions", b"no json at all" * 100, {}),
    ]
    with serving(upstream) as up, gateway(config_for(up, compression=SHADOW)) as (url, app):
        for path, body, headers in sent:
            post(url + path, body, **headers)
        told = settled(app)

    assert [request.body for request in upstream.received] == [body for _, body, _ in sent]
    assert told.by("agora_requests_total", "rung") == {"2": len(sent)}
    assert told.total("agora_shadow_tokens_removed_total") > 0
    assert told.total("agora_tokens_removed_total") == 0


def test_what_would_be_saved_is_what_editing_then_saves() -> None:
    pytest.importorskip("mistral_common", reason="mistral-common is not installed")
    tokens = real_tokens()
    calls, sheet = grown(45, 2_000), sheet_for("claude-sonnet-4-6")
    dollars: dict[str, float] = {}
    told: dict[str, Snapshot] = {}
    modes: tuple[Literal["shadow", "edit"], ...] = ("shadow", "edit")
    for mode in modes:
        upstream = Cached(tokens)
        compression = Compression(min_tokens=200, mode=mode)
        limits = Limits(compress_deadline_ms=5_000, restore_deadline_ms=5_000, drain_seconds=2)
        with serving(upstream) as up:
            config = config_for(up, compression=compression, limits=limits)
            with gateway(config) as (url, app):
                for body in calls:
                    assert post(url + "/v1/messages", body, **{"x-api-key": "sk-1"})[0] == 200
                told[mode] = settled(app)
        bill = upstream.bills["sk-1"]
        cost = bill["read"] * sheet.read + bill["written"] * sheet.write
        dollars[mode] = cost * sheet.input / 1e6

    made = dollars["shadow"] - dollars["edit"]
    shadow = told["shadow"]
    predicted = shadow.total("agora_shadow_dollars_gained_total")
    predicted -= shadow.total("agora_shadow_dollars_lost_total")
    removed = told["edit"].total("agora_tokens_removed_total")
    assert made > 0
    assert shadow.total("agora_shadow_tokens_removed_total") == pytest.approx(removed, rel=0.03)
    assert predicted == pytest.approx(made, rel=0.03)


@dataclass
class Slow:
    """A scorer that takes longer than an agent to come back."""

    seconds: float

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        time.sleep(self.seconds)
        return FeaturesScorer().score(anchor, steps)


def test_decisions_slower_than_the_calls_predict_what_editing_saves() -> None:
    pytest.importorskip("mistral_common", reason="mistral-common is not installed")
    tokens = real_tokens()
    calls, sheet = grown(45, 2_000), sheet_for("claude-sonnet-4-6")
    dollars: dict[str, float] = {}
    modes: tuple[tuple[Literal["shadow", "edit"], float], ...] = (("shadow", 0.4), ("edit", 0.0))
    for mode, seconds in modes:
        upstream = Cached(tokens)
        compression = Compression(min_tokens=200, mode=mode)
        limits = Limits(compress_deadline_ms=5_000, restore_deadline_ms=5_000, drain_seconds=2)
        with serving(upstream) as up:
            config = config_for(up, compression=compression, limits=limits)
            with gateway(config, scorer=Slow(seconds)) as (url, app):
                for body in calls:
                    assert post(url + "/v1/messages", body, **{"x-api-key": "sk-1"})[0] == 200
                told = settled(app)
        if mode == "shadow":
            assert "continued" not in told.by("agora_shadow_requests_total", "reason")
            predicted = told.total("agora_shadow_dollars_gained_total")
            predicted -= told.total("agora_shadow_dollars_lost_total")
        bill = upstream.bills["sk-1"]
        cost = bill["read"] * sheet.read + bill["written"] * sheet.write
        dollars[mode] = cost * sheet.input / 1e6

    assert predicted == pytest.approx(dollars["shadow"] - dollars["edit"], rel=0.05)


def test_nothing_is_booked_as_saved_and_no_tenant_stands_down_in_shadow() -> None:
    upstream = Cached()
    with serving(upstream) as up, gateway(config_for(up, compression=SHADOW)) as (url, app):
        for body in grown(30, 2_000):
            post(url + "/v1/messages", body, **{"x-api-key": "sk-1"})
        told = settled(app)

    assert told.net_dollars() == 0
    assert told.total("agora_stand_downs_total") == 0
    assert upstream.bills["sk-1"]["breaks"] == 0


def job(body: dict[str, Any]) -> Job:
    sheet = sheet_for("gpt-4o")
    return Job(body=json.dumps(body).encode(), route=CHAT, sheet_of=lambda _: sheet)


def with_step(body: dict[str, Any], number: int, path: str, seen: str) -> dict[str, Any]:
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "read", "arguments": json.dumps({"path": path})},
    }
    added = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": seen},
    ]
    return {**body, "messages": [*body["messages"], *added]}


def edited_editor(names: bool) -> tuple[Editor, dict[str, Any], tuple[int, ...], Any]:
    """Return an editor that has just edited a conversation, with the steps that it elides."""
    editor = Editor(EditorSettings(scorer=FeaturesScorer(), shadow=names, lines=False))
    body = chat(60, 2_000)
    edited = editor(job(body))
    assert edited.changed
    assert edited.conversation is not None
    assert edited.conversation.hindsight is not None
    return editor, body, edited.conversation.hindsight.elided, edited.conversation


def test_a_step_that_uses_what_would_have_been_elided_is_counted_once_it_comes() -> None:
    editor, body, elided, conversation = edited_editor(names=True)
    gone = json.loads(json.dumps(body))["messages"][1 + 2 * elided[0]]["content"]
    name = next(word for word in gone.split() if word.startswith("fn_")).partition("(")[0]

    body = with_step(body, 61, "src/quite_another.py", "nothing of note")
    assert editor.look(job(body)).edited
    assert conversation.hindsight.take()[:3] == (1, 0, 0)

    body = with_step(body, 62, name, f"{name} is here")
    assert editor.look(job(body)).edited
    assert conversation.hindsight.take()[:3] == (1, 1, 0)

    # It has come back since: using it once more proves nothing.
    body = with_step(body, 63, name, "and again")
    assert editor(job(body))
    assert conversation.hindsight.take()[:3] == (1, 0, 0)


def test_a_step_that_repeats_an_elided_one_is_a_reread_in_either_mode() -> None:
    for names in (True, False):
        editor, body, elided, conversation = edited_editor(names=names)
        body = with_step(body, 61, f"src/module_{elided[-1]}.py", "as before")
        assert editor(job(body))
        looked = conversation.hindsight.take()
        assert looked.again == 1
        assert looked.asked == ("gone read",)
        assert looked.elided == ("gone read",) * len(elided)


def test_rereads_are_counted_through_the_gateway() -> None:
    upstream = Cached()
    whole = messages(45, 2_000)
    again = whole["messages"][1:3]
    turns = [*whole["messages"]]
    for turn in again:
        text = json.dumps(turn).replace("toolu_1", "toolu_99")
        turns.append(json.loads(text))
    bodies = [*grown(45, 2_000), with_turns(turns)]
    compression = Compression(min_tokens=200)
    with serving(upstream) as up, gateway(config_for(up, compression=compression)) as (url, app):
        for body in bodies:
            post(url + "/v1/messages", body, **{"x-api-key": "sk-1"})
        told = settled(app)

    assert told.total("agora_rereads_total", mode="edit") == 1
    assert told.total("agora_steps_after_edit_total", mode="edit") > 1
    assert told.total("agora_used_elided_total") == 0


def test_a_call_that_breaks_is_predicted_to_miss_what_the_two_bodies_do_not_share() -> None:
    sheet = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=0)
    warm = Billed(read=29_000, written=1_000)
    later = Would(tokens_before=30_000, tokens_after=10_000)
    edit = Would(tokens_before=30_000, tokens_after=10_000, breaks=True, shared=0.5)

    assert predicted_saving(sheet, warm, later) > 0 > predicted_saving(sheet, warm, edit)
    assert predicted_saving(sheet, Billed(), later) == 0
    cold = Billed(written=30_000)
    assert predicted_saving(sheet, cold, edit) == pytest.approx(20_000 * 1.25 / 1e6)


def test_shared_bytes_never_exceed_what_a_prefix_cache_reads() -> None:
    one, two = b"x" * 10_000 + b"1" * 3_000, b"x" * 10_000 + b"2" * 9_000
    cache = PrefixCache()
    cache.call(one)

    assert shared_bytes(blocks_of(one), blocks_of(two)) <= 10_000
    assert cache.call(two).read <= 10_000


def test_numbers_are_written_as_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([1, 2, 5, 7, 8, 9]) == "1-2,5,7-9"


def test_a_client_wrapped_in_shadow_sends_what_it_was_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    upstream, body = StrictUpstream(), chat(40, 2_000)
    with serving(upstream) as up, caplog.at_level("INFO", logger="agora.integrations"):
        client = openai.OpenAI(api_key="sk-1", base_url=f"{up}/v1", max_retries=0)
        agora.wrap(client, shadow=True).chat.completions.create(**body)
        agora.wrap(client).chat.completions.create(**body)

    sent = [json.loads(request.body)["messages"] for request in upstream.received]
    assert sent[0] == body["messages"]
    assert len(sent[1]) < len(sent[0])
    assert any("would be" in record.getMessage() for record in caplog.records)
