"""What takes long is read in a process of its own: the same bytes, and nobody else waits for it."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agora.core.compression import Rung
from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora.gateway.app import App
from agora.gateway.config import Limits
from agora.gateway.editing.away import Away, LostError
from agora.gateway.editing.conversation import ConversationState, Cut, Mark, Seen
from agora.gateway.editing.conversations import Conversations
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.reload import reload
from agora.scorers.features import FeaturesScorer
from harness.gateway.histories import messages
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream
from tests.gateway.test_continue import MAKERS, ROUTES, body_of, job, session
from tests.gateway.test_neighbours import ask, grown

LONG_STEPS = 10_000
"""Of 200 bytes: 4.4 MB, eight seconds of work."""
SOME_STEPS = 2_600
"""A second of work or more."""
MOST_SECONDS = 280.0
"""For work that is done last on a machine that may be busy."""
SETTINGS = EditorSettings(scorer=FeaturesScorer())


@contextmanager
def away_for(settings: EditorSettings = SETTINGS, **options: Any) -> Iterator[Away]:
    away = Away(settings, **options)
    try:
        yield away
    finally:
        away.close()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False


def until(holds: Callable[[], object], seconds: float = MOST_SECONDS) -> None:
    stop = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < stop, "it never came to hold"
        time.sleep(0.02)


@pytest.mark.parametrize("shadow", [False, True])
@pytest.mark.parametrize("format", ROUTES)
def test_what_another_process_reads_gives_the_same_bytes_and_is_remembered_alike(
    format: str, shadow: bool
) -> None:
    settings = replace(SETTINGS, shadow=shadow)
    here, there = Editor(settings), Editor(settings)
    continued = 0
    with away_for(settings) as away:
        for steps in (*range(20, 32), 32, 31, 60):
            body = body_of({**MAKERS[format](steps, 1_200)}, ROUTES[format].field, marked=0)
            asked = job(body, format, tenant="a")
            ours = here.look(asked).edited
            theirs = there.look(asked).edited
            assert (ours is None) == (theirs is None)
            continued += ours is not None
            ours = ours or here(asked)
            theirs = theirs or there(replace(asked, away=away))
            assert theirs.body == ours.body
            assert replace(theirs, conversation=None) == replace(ours, conversation=None)
            assert theirs.conversation is not None
            assert ours.conversation is not None
            assert theirs.newly_elided == ours.newly_elided
            assert theirs.conversation.look_back() == ours.conversation.look_back()
    assert continued


def test_what_is_left_alone_or_in_doubt_comes_back_as_it_is() -> None:
    editor = Editor(SETTINGS)
    deep = b"[" * 70 + b"]" * 70
    short = body_of(messages(2), "messages")
    with away_for() as away:
        for body in (short, short.replace(b'"path": ', b'"deep": %b, "path": ' % deep)):
            asked = job(body, "anthropic")
            assert editor(replace(asked, away=away)).body == body
            assert editor(replace(asked, away=away)).reason == Editor(SETTINGS)(asked).reason


def test_a_process_that_is_killed_is_replaced_and_the_work_done_once_more() -> None:
    editor, asked = Editor(SETTINGS), job(grown(SOME_STEPS, 200), "anthropic")
    killed: list[int] = []

    def kill() -> None:
        until(lambda: away._line is not None)
        time.sleep(0.3)
        killed.append(away.pid or 0)
        os.kill(killed[0], signal.SIGKILL)

    with away_for() as away:
        threading.Thread(target=kill).start()
        edited = editor(replace(asked, away=away))
        assert killed
        assert away.pid not in killed
    assert edited.body == Editor(SETTINGS)(asked).body


@dataclass(frozen=True)
class Bound:
    """A scorer that no other process can be given."""

    lock: Any = field(default_factory=threading.Lock)
    inner: Scorer = field(default_factory=FeaturesScorer)

    def score(self, anchor: Anchor, steps: Any) -> Any:
        return self.inner.score(anchor, steps)


def test_where_no_process_can_be_started_the_work_is_done_here_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = replace(SETTINGS, scorer=Bound())
    editor, asked = Editor(settings), job(grown(60, 2_000), "anthropic")
    with away_for(settings) as away:
        edited = editor(replace(asked, away=away))
        editor(replace(job(session(1, 60), "anthropic"), away=away))
        assert away.pid is None
    assert edited.changed
    assert edited.body == Editor(settings)(asked).body
    (said,) = [record.message for record in caplog.records]
    assert said.startswith("long conversations are edited in a thread")
    assert said.endswith("(TypeError)")


@dataclass(frozen=True)
class Deadly:
    """A scorer that ends its process, wherever that is."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> list[float]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []


def test_what_ends_its_process_twice_is_not_tried_here(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its scorer is one of this file, which the other process has to find.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]))
    asked = job(grown(60, 2_000), "anthropic")
    with (
        away_for(replace(SETTINGS, scorer=Deadly())) as away,
        pytest.raises(LostError, match="its process ended twice"),
    ):
        Editor(SETTINGS)(replace(asked, away=away))


def test_work_that_takes_too_long_is_ended() -> None:
    asked = job(grown(SOME_STEPS, 200), "anthropic")
    with away_for() as away:
        until(lambda: Editor(SETTINGS)(replace(job(grown(3, 9), "anthropic"), away=away)), 30)
        pid = away.pid
        assert pid is not None
        with pytest.raises(LostError, match="it took too long"):
            Editor(SETTINGS)(replace(asked, away=away, gone=lambda: True))
        assert not is_alive(pid)


def test_it_ends_when_idle_when_closed_and_when_its_parent_is_killed(tmp_path: Path) -> None:
    small = replace(job(grown(3, 9), "anthropic"))
    with away_for(idle_seconds=0.1) as away:
        Editor(SETTINGS)(replace(small, away=away))
        first = away.pid
        assert first is not None
        until(lambda: not is_alive(first), 60)
        # The next work starts another.
        assert Editor(SETTINGS)(replace(small, away=away)).body == small.body
    assert away.pid is not None
    assert not is_alive(away.pid)

    program = (
        "import sys, time\n"
        "from tests.gateway.test_away import *\n"
        "away = Away(SETTINGS)\n"
        "asked = job(grown(3, 9), 'anthropic')\n"
        "Editor(SETTINGS)(replace(asked, away=away))\n"
        "print(away.pid, flush=True)\n"
        "asked = job(grown(LONG_STEPS, 200), 'anthropic')\n"
        "Editor(SETTINGS)(replace(asked, away=away))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert parent.stdout is not None
    orphan = int(parent.stdout.readline())
    time.sleep(0.5)
    assert is_alive(orphan)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not is_alive(orphan), 60)


def test_it_gives_way_has_bounded_memory_and_shows_nothing_of_what_it_reads() -> None:
    with away_for() as away:
        Editor(SETTINGS)(replace(job(grown(3, 9), "anthropic"), away=away))
        process = Path(f"/proc/{away.pid}")
        assert os.getpriority(os.PRIO_PROCESS, away.pid or 0) > os.getpriority(os.PRIO_PROCESS, 0)
        limits = (process / "limits").read_text().splitlines()
        assert any(line.startswith("Max data size") and "536870912" in line for line in limits)
        assert b"fn_77" not in (process / "cmdline").read_bytes()
        files = [os.readlink(file) for file in (process / "fd").iterdir()]
        assert all(file.startswith(("/dev/null", "socket:", "anon_inode:")) for file in files)


def test_one_very_long_conversation_leaves_others_room_to_be_edited() -> None:
    editor = Editor(replace(SETTINGS, memory_bytes=32 << 20))
    editor(job(grown(SOME_STEPS, 200), "anthropic", tenant="long"))
    # It weighs more than a megabyte; of six there are only some with room for as much.
    outcomes = [
        editor(job(session(number, 45), "anthropic", tenant=f"t-{number}")).changed
        for number in range(12)
    ]
    assert all(outcomes)


def test_there_is_room_for_as_many_as_grow_as_others_did() -> None:
    empty = Conversations(1 << 20)
    assert empty.admits()
    assert Conversations(0).admits()
    assert not Conversations(1_000).admits()


def test_conversations_that_rest_leave_what_was_reserved_for_their_growth() -> None:
    now = 1_000.0
    kept = Conversations(1 << 20, clock=lambda: now)
    while kept.admits():
        kept.remember(edited_once(len(kept._seen), when=now))
    assert len(kept._seen) == 12
    now += 61
    assert kept.admits()
    assert not kept.occupancy().forgotten


def test_conversations_that_are_over_take_a_quarter_of_the_room() -> None:
    now = 1_000.0
    kept = Conversations(1 << 20, clock=lambda: now)
    for number in range(200):
        kept.remember(edited_once(number, when=now))
    assert len(kept._seen) == 200
    assert not kept.occupancy().forgotten

    now += 301
    kept.remember(edited_once(200, when=now))
    occupancy = kept.occupancy()
    assert occupancy.used < occupancy.most / 4
    assert 40 < len(kept._seen) < 200
    # The newest are kept.
    assert ("t-200", "anthropic") in kept._seen


def test_conversations_stay_as_long_as_the_provider_has_them_cached() -> None:
    now = 1_000.0
    kept = Conversations(1 << 20, clock=lambda: now)
    for number in range(200):
        kept.remember(edited_once(number, when=now, cached_seconds=3_600))

    now += 3_599
    kept.remember(edited_once(200, when=now))
    assert not kept.occupancy().forgotten

    now += 2
    kept.remember(edited_once(201, when=now))
    assert kept.occupancy().used < kept.occupancy().most / 4


def edited_once(number: int, *, when: float, cached_seconds: float = 300) -> Seen:
    """Return a conversation with a small edit."""
    return Seen(
        key=(f"t-{number}", "anthropic"),
        conversation=ConversationState(when=when, cached_seconds=cached_seconds),
        head={},
        start=0,
        before=0,
        opening=b"",
        marks=(Mark(1, 0, b""),),
        tokens=0,
        newest=0,
        cut=Cut(pieces=(), tail=0, epoch=1, room=None, removed=0, rung=Rung.SCORED),
        last=None,
        settled=None,
    )


def limits() -> Limits:
    return Limits(restore_deadline_ms=500, drain_seconds=2)


def is_idle(app: App) -> bool:
    return not app.editing.long.is_busy


def test_killing_the_process_is_not_seen_by_any_client() -> None:
    upstream = StrictUpstream()
    with serving(upstream) as up, gateway(config_for(up, limits=limits())) as (url, app):
        why, _ = ask(url, grown(SOME_STEPS, 200), "sk-long")
        assert why == "pending"
        for _ in range(2):
            until(lambda: app.editing.away._line is not None)
            os.kill(app.editing.away.pid or 0, signal.SIGKILL)
            time.sleep(0.2)
            ask(url, grown(40, 2_000), "sk-other")
        # Whatever became of that work: the next call begins it again.
        calls = 0
        while why:
            calls += 1
            assert calls <= 3
            until(lambda: is_idle(app))
            why, _ = ask(url, grown(SOME_STEPS + calls, 200), "sk-long")


def test_a_gateway_that_stops_or_is_configured_anew_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agora.gateway.reload._LET_GO_SECONDS", 0.1)
    with serving(StrictUpstream()) as up:
        config = config_for(up, limits=limits())
        with gateway(config) as (url, app):
            ask(url, grown(SOME_STEPS, 200), "sk-long")
            until(lambda: app.editing.away._line is not None)
            first = app.editing.away.pid
            assert first is not None
            new = replace(config, compression=replace(config.compression, keep_ratio=0.5))
            client = app.forwarder.client._session
            assert client is not None
            loop = client._loop
            asyncio.run_coroutine_threadsafe(reload(app, new), loop).result(60)
            until(lambda: not is_alive(first), 60)

            ask(url, grown(SOME_STEPS, 200), "sk-long")
            until(lambda: app.editing.away._line is not None)
            second = app.editing.away.pid
            assert second is not None
            assert is_alive(second)
        until(lambda: not is_alive(second), 60)


@pytest.mark.timing
def test_ten_thousand_steps_are_edited_at_the_call_after_the_work_and_nobody_else_is_slower() -> (
    None
):
    upstream = StrictUpstream()
    with serving(upstream) as up, gateway(config_for(up, limits=limits())) as (url, app):

        def others(count: int, tag: str) -> list[float]:
            return sorted(ask(url, grown(12, 500), f"sk-{tag}-{n}")[1] for n in range(count))

        others(20, "warm")
        bare = others(200, "bare")
        why, _ = ask(url, grown(LONG_STEPS, 200), "sk-long")
        assert why == "pending"
        beside: list[float] = []
        until(lambda: app.editing.away._line is not None)
        while not is_idle(app):
            beside += others(50, f"beside-{len(beside)}")
            # The calls that come meanwhile keep nothing and start nothing.
            if len(beside) == 50:
                assert ask(url, grown(LONG_STEPS + 1, 200), "sk-long")[0] == "pending"
                assert len(app.editing.long._orders) == 0
        # The second call after the first work: edited, whatever came before.
        why, _ = ask(url, grown(LONG_STEPS + 2, 200), "sk-long")
        assert why == ""
        assert len(upstream.received[-1].body) < 0.4 * len(grown(LONG_STEPS, 200))
        status = Path(f"/proc/{app.editing.away.pid}/status").read_text()
        most = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        assert int(most.split()[1]) < 256 << 10, most
    beside.sort()
    middle, late = (
        (beside[int(len(beside) * share)], bare[int(len(bare) * share)]) for share in (0.5, 0.95)
    )
    # Two cores, one of them busy with the work: no more than a machine's own noise.
    assert middle[0] < 2 * middle[1] + 0.005, (middle, late)
    assert late[0] < 3 * late[1] + 0.03, (middle, late)
