"""Whatever the time, what goes out continues what went before, and the books say what it cost."""

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.adapters import validate
from agora.core.prices import sheet_for
from agora.core.reading.observation import observe
from agora.core.trajectory import Anchor, Step
from agora.gateway.app import App
from agora.gateway.config import Config, Limits
from agora.gateway.editing.conversation import ConversationState
from agora.gateway.editing.conversations import _CONVERSATION_BYTES, _EDITED_SHARE
from agora.gateway.editing.deciding import LATE
from agora.gateway.editing.editor import _MEMORY_SHARE, Editor
from agora.gateway.editing.job import CONTINUED, NOT_ADMITTED, Edited, Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CHAT, MESSAGES, RESPONSES
from agora.scorers.features import FeaturesScorer
from harness.gateway.cached_upstream import MARK, Cached, PrefixCache
from harness.gateway.histories import Body, chat, messages, responses
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

ROUTES = {"openai": CHAT, "responses": RESPONSES, "anthropic": MESSAGES}
MAKERS = {"openai": chat, "responses": responses, "anthropic": messages}
CALLS = range(4, 40)


def body_of(asked: Body, field: str, *, marked: int = 0) -> bytes:
    """Return a body whose messages come last, so that what is appended stands at its end."""
    said = asked.pop(field)
    theirs = [message for message in said if message.get("role") in ("user", "tool")]
    for message in theirs if marked else ():
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    for message in theirs[-marked:] if marked else ():
        message["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return json.dumps({**asked, field: said}, separators=(",", ":")).encode()


def continues(sent: bytes, before: bytes) -> bool:
    """Tell whether what was sent begins with what was sent before, breakpoints aside."""
    return sent.replace(MARK, b"").startswith(before.replace(MARK, b"").removesuffix(b"]}"))


def job(body: bytes, format: str, tenant: str = "") -> Job:
    sheet = sheet_for({"anthropic": "claude-sonnet-4-6"}.get(format, "gpt-5"))
    return Job(body=body, route=ROUTES[format], sheet_of=lambda _: sheet, tenant=tenant)


@pytest.mark.parametrize("marked", [0, 2])
@pytest.mark.parametrize("format", ROUTES)
@settings(max_examples=4, deadline=None)
@given(late=st.lists(st.integers(0, 3), min_size=len(CALLS), max_size=len(CALLS)))
def test_what_is_sent_continues_what_was_sent_until_a_late_edit_is_there(
    format: str, marked: int, late: list[int]
) -> None:
    if format == "responses" and marked:
        return
    route = ROUTES[format]
    editor = Editor(EditorSettings(scorer=FeaturesScorer()))
    before, worked_out, carried = b"", False, 0
    pending: tuple[int, bytes] | None = None
    for at, steps in enumerate(CALLS):
        body = body_of({**MAKERS[format](steps, 1_200)}, route.field, marked=marked)
        if pending is not None and pending[0] <= at:
            editor(job(pending[1], format))
            pending, worked_out = None, True
        outcome = editor.look(job(body, format)).edited
        in_time = outcome is not None or (pending is None and not late[at])
        if outcome is None and in_time:
            outcome, worked_out = editor(job(body, format)), True
        if outcome is None:
            pending = pending or (at + late[at], body)
            outcome = editor.continue_edit(job(body, format), "deadline")
        sent = body if outcome is None else outcome.body
        carried += outcome is not None and outcome.reason == CONTINUED
        assert worked_out or continues(sent, before or sent), steps
        asked, whole = json.loads(sent), json.loads(body)
        thinking = {"system": asked.get("system"), "tools": asked.get("tools")}
        assert not validate(asked[route.field], format=format, **thinking)
        assert asked[route.field][-2:] == whole[route.field][-2:]
        before, worked_out = sent, False


def test_an_edit_goes_on_even_where_the_client_marks_other_messages_than_before() -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer()))
    sent: list[Edited | None] = []
    for steps in (38, 39):
        body = body_of(messages(steps, 2_000), "messages", marked=3)
        sent.append(editor.continue_edit(job(body, "anthropic"), "deadline"))
        editor(job(body, "anthropic"))
    assert sent[0] is None
    assert sent[1] is not None
    assert sent[1].reason == CONTINUED

    # With fewer steps behind the edit than an edit keeps, it is not taken.
    short = body_of(messages(20, 2_000), "messages", marked=3)
    assert editor.continue_edit(job(short, "anthropic"), "deadline") is None
    assert editor.continue_edit(job(b"{", "anthropic"), "deadline") is None
    assert editor.continue_edit(job(b'{"messages":3}', "anthropic"), "deadline") is None


@dataclass
class Gate:
    """A scorer that waits to be let go."""

    go: threading.Event = field(default_factory=threading.Event)

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        assert self.go.wait(20)
        return FeaturesScorer().score(anchor, steps)


@dataclass
class Door:
    """A gateway whose edits are worked out when the test says so."""

    url: str
    app: App
    gate: Gate
    upstream: Any

    def ask(self, body: bytes) -> str:
        """Send a body; return why it was left alone, or nothing."""
        host, port = self.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.request("POST", "/v1/messages", body, {"x-api-key": "sk-1"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 200
        return answer.getheader("x-agora-untouched") or ""

    def release(self) -> None:
        """Let the work that waits be done."""
        self.gate.go.set()
        until = time.monotonic() + 20
        while self.app.forwarder.pool._under_way and time.monotonic() < until:
            time.sleep(0.005)
        self.gate.go.clear()

    @property
    def sent(self) -> list[bytes]:
        return [request.body for request in self.upstream.received]


@contextmanager
def opened(upstream: Any, **limits: int) -> Iterator[Door]:
    gate = Gate()
    # Threads warm up at the start.
    gate.go.set()
    given = Limits(compress_deadline_ms=40, restore_deadline_ms=40)
    with serving(upstream) as url:
        config: Config = config_for(url, limits=replace(given, **limits))
        with gateway(config, scorer=gate) as (door, app):
            gate.go.clear()
            try:
                yield Door(door, app, gate, upstream)
            finally:
                gate.go.set()


def calls(first: int, last: int, size: int = 2_000) -> list[bytes]:
    return [body_of(messages(steps, size), "messages") for steps in range(first, last)]


def test_an_edit_that_is_late_comes_with_the_next_call_and_nothing_breaks_before() -> None:
    with opened(StrictUpstream()) as door:
        released, missed = True, 0
        for body in calls(4, 60):
            door.ask(body)
            first = released or continues(door.sent[-1], door.sent[-2])
            assert first, "what went out does not continue what went before"
            late = bool(door.app.forwarder.pool._under_way)
            missed += late
            released = late and missed % 3 == 0
            if released:
                door.release()
        reported = door.app.forwarder.meter.snapshot()
        reasons = reported.by("agora_requests_total", "reason")
        edits = sum(not continues(*pair) for pair in zip(door.sent[1:], door.sent, strict=False))

    assert missed >= 6
    assert reasons["continued"] >= 2
    assert edits >= 2


def test_a_call_whose_edit_is_under_way_does_not_wait_and_the_edit_comes_when_it_is_there() -> None:
    with opened(StrictUpstream()) as door:
        bodies = iter(calls(4, 60))
        while not door.app.forwarder.pool._under_way:
            door.ask(next(bodies))
        forwarder = door.app.forwarder
        patient = replace(forwarder.config.limits, compress_deadline_ms=20_000)
        forwarder.config = replace(forwarder.config, limits=patient)
        for _ in range(3):
            # Nobody lets the work go on: whoever waited would wait for twenty seconds.
            began = time.monotonic()
            door.ask(next(bodies))
            assert time.monotonic() - began < 10
            assert continues(door.sent[-1], door.sent[-2])
        door.release()
        door.ask(next(bodies))

    assert len(door.sent[-1]) < len(door.sent[-2]), "the edit did not come with the next call"


@pytest.mark.parametrize("trouble", ["saturated", "breaker_open", "stand_down"])
def test_a_conversation_that_was_edited_stays_so_when_editing_stops(trouble: str) -> None:
    with opened(StrictUpstream(), compress_deadline_ms=5_000, restore_deadline_ms=5_000) as door:
        door.gate.go.set()
        pool, ledger = door.app.forwarder.pool, door.app.forwarder.ledger
        bodies = calls(30, 60)
        door.ask(bodies[0])
        assert len(door.sent[-1]) < len(bodies[0])
        if trouble == "saturated":
            pool.waiting_most = 0
        elif trouble == "breaker_open":
            pool.failing.allows = lambda key: False  # type: ignore[method-assign]
        else:
            ledger.may_compress = lambda *_: False  # type: ignore[method-assign]
        for body in bodies[1:]:
            door.ask(body)
            assert continues(door.sent[-1], door.sent[-2])


def test_a_conversation_that_is_not_known_here_may_take_longer_than_one_that_is() -> None:
    body = calls(40, 41)[0]
    upstream = StrictUpstream()
    with opened(upstream, restore_deadline_ms=20_000) as door:
        threading.Timer(0.3, door.gate.go.set).start()
        assert door.ask(body) == ""
    with opened(upstream) as door:
        assert door.ask(body) == "pending"

    assert len(upstream.received[0].body) < len(body)
    assert upstream.received[1].body == body


@pytest.mark.parametrize("format", ROUTES)
def test_what_cannot_have_been_edited_before_is_known_by_its_steps(format: str) -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer()))
    field = ROUTES[format].field

    def begins(steps: int, size: int = 4_000, editor: Editor = editor) -> bool:
        return editor.look(job(body_of(MAKERS[format](steps, size), field), format)).begins

    assert [begins(steps) for steps in range(5)] == [True, True, True, False, False]
    # What takes long to look at is not looked at.
    assert not begins(2, 100_000)
    # There something may have been left out as it arrived.
    repeats = Editor(EditorSettings(scorer=FeaturesScorer(), repeats=True))
    assert not begins(1, editor=repeats)


def test_a_conversation_that_begins_waits_no_longer_than_one_that_is_known() -> None:
    body = body_of(messages(2, 8_000), "messages")
    upstream = StrictUpstream()
    with opened(upstream, restore_deadline_ms=20_000) as door:
        before = threading.Thread(target=door.ask, args=calls(40, 41))
        before.start()
        # Begun, not only put: what is short would come before it.
        while not any(thread.busy_since for thread in door.app.forwarder.pool._threads):
            time.sleep(0.005)
        began = time.monotonic()
        assert door.ask(body) in LATE
        assert time.monotonic() - began < 10
        door.gate.go.set()
        before.join(20)

    assert upstream.received[0].body == body


def test_a_very_long_conversation_that_grows_is_known_without_being_read() -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer()))
    bodies = [body_of(messages(steps, 20), "messages") for steps in range(2_000, 2_003)]
    assert editor(job(bodies[0], "anthropic")).changed

    for body in bodies[1:]:
        known = editor.look(job(body, "anthropic")).edited
        assert known is not None
        assert known.body == editor(job(body, "anthropic")).body


@dataclass
class Billing(Cached):
    """An upstream with a prefix cache that also keeps what it received."""

    prompts: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        prompts = self.prompts

        class Keeping(PrefixCache):
            def call(self, body: bytes) -> Any:
                prompts.append(body)
                return super().call(body)

        self.caches["sk-1"] = Keeping()


@pytest.mark.parametrize("seed", range(3))
def test_the_dollars_claimed_are_those_of_the_bill_however_many_edits_were_late(seed: int) -> None:
    chance, upstream = random.Random(seed), Billing()
    direct = PrefixCache()
    came = [0, 0]
    with opened(upstream) as door:
        for body in calls(2, 70, 3_000):
            call = direct.call(body)
            came = [came[0] + call.read, came[1] + call.written]
            door.ask(body)
            if chance.random() < 0.4:
                door.release()
        until = time.monotonic() + 10
        while door.app.open_requests and time.monotonic() < until:
            time.sleep(0.01)
        claimed = door.app.forwarder.meter.snapshot().net_dollars()
    bill, sheet = upstream.bills["sk-1"], sheet_for("claude-sonnet-4-6")
    saved = (came[0] - bill["read"]) * sheet.read + (came[1] - bill["written"]) * sheet.write

    assert bill["breaks"] >= 1
    assert claimed == pytest.approx(saved * sheet.input / 1e6, rel=0.03)


def test_what_is_remembered_of_a_conversation_is_small() -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer()))
    bodies = calls(40, 60, 10_000)
    for body in bodies:
        assert editor.look(job(body, "anthropic")).edited or editor(job(body, "anthropic"))

    used = editor.occupancy()["conversations"].used
    assert 0 < used < len(bodies[-1]) / 5


def session(number: int, steps: int) -> bytes:
    asked = messages(steps, 2_000)
    asked["messages"][0]["content"] = f"Session {number}: find fn_77."
    return body_of(asked, "messages")


TWO = int(2.6 * _CONVERSATION_BYTES / _EDITED_SHARE / _MEMORY_SHARE)
"""Of bytes, so that two conversations with an edit have room."""


def test_a_conversation_for_which_there_is_no_room_is_never_edited_and_the_others_stay_so() -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer(), memory_bytes=TWO))
    reasons: dict[int, list[str]] = {}
    for steps in range(4, 46):
        for number in range(6):
            body = session(number, steps)
            asked = job(body, "anthropic", tenant=f"t-{number}")
            outcome = editor.look(asked).edited or editor(asked)
            reasons.setdefault(number, []).append(outcome.reason)
            assert outcome.changed == (outcome.reason == "compressed")
            if outcome.reason == NOT_ADMITTED:
                assert outcome.body == body
                assert editor(asked).reason == NOT_ADMITTED

    assert sum("compressed" in said for said in reasons.values()) == 2
    for said in reasons.values():
        # Never half-way: once one or the other, always so.
        first = next(at for at, reason in enumerate(said) if reason != "not_worth_it_yet")
        assert set(said[first:]) in ({"compressed"}, {NOT_ADMITTED})


def test_a_conversation_that_went_quiet_makes_room_for_a_new_one() -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer(), memory_bytes=TWO))
    outcomes = []
    for number in range(1, 5):
        if number == 4:
            editor._conversations._clock = lambda: time.monotonic() + 10_000
        for steps in (5, 45):
            asked = job(session(number, steps), "anthropic", tenant=f"t-{number}")
            outcome = editor(asked)
        outcomes.append(outcome.changed)

    assert outcomes == [True, True, False, True]


def test_texts_that_wait_to_be_read_ahead_are_kept_only_while_a_conversation_goes_on() -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer(), min_tokens=10**9))
    kept = []
    for tenant in ("a", "b"):
        for body in calls(4, 9):
            asked = job(body, "anthropic", tenant=tenant)
            conversation = editor.look(asked).conversation or editor(asked).conversation
        assert conversation is not None
        kept.append(conversation)
    assert [len(one.unread) for one in kept] == [4, 4]
    editor._conversations._clock = lambda: time.monotonic() + 100
    editor.look(job(calls(9, 10)[0], "anthropic", tenant="b"))

    assert [len(one.unread) for one in kept] == [0, 5]


def test_texts_that_were_read_ahead_are_not_read_at_the_edit() -> None:
    asked: list[int] = []

    class Counting:
        def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
            asked.append(len(steps))
            return FeaturesScorer().score(anchor, steps)

    editor = Editor(EditorSettings(scorer=Counting()))
    bodies = calls(8, 14)
    editor(job(bodies[0], "anthropic"))
    for body in bodies[1:]:
        conversation = editor.look(job(body, "anthropic")).conversation
    assert conversation is not None
    assert len(conversation.unread) == 5

    editor(replace(job(b"", "anthropic"), ahead=conversation))
    editor(replace(job(b"", "anthropic"), ahead=conversation))

    assert asked == [5]
    assert not conversation.unread


@pytest.mark.parametrize("lines", [True, False])
def test_what_lines_are_made_of_is_read_ahead(lines: bool) -> None:
    editor = Editor(EditorSettings(scorer=FeaturesScorer(), lines=lines))
    # Texts of its own, which nothing has read before.
    bodies = calls(8, 14, size=2_300 + 600 * lines)
    editor(job(bodies[0], "anthropic"))
    for body in bodies[1:]:
        conversation = editor.look(job(body, "anthropic")).conversation
    assert conversation is not None
    texts = [step.observation for step in conversation.unread]

    editor(replace(job(b"", "anthropic"), ahead=conversation))

    read = [{"things", "facts", "outcome"} <= vars(observe(text)).keys() for text in texts]
    assert read == [lines] * 5


def test_an_edit_is_expected_to_take_no_longer_for_one_slow_reading() -> None:
    conversation = ConversationState()
    conversation.took(1.0, 100_000)
    conversation.took(60.0, 100_000)
    assert conversation.pace * 100_000 == pytest.approx(2)
    conversation.took(0.5, 100_000)
    assert conversation.pace * 100_000 == pytest.approx(0.5)

    # A short body takes longer than its share of a long one.
    small = ConversationState()
    small.took(0.01, 1_000)
    assert small.pace * 16_384 == pytest.approx(0.01)
