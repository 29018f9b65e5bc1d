"""At which calls a replay edits: by the clock of the log, and by the function that decides live."""

from dataclasses import replace

import pytest

from agora import Compressor, sheet_for

# Private: that one function alone makes edits.
from agora.core import schedule
from agora.logs import Recording
from agora.replay import Policy, Replayed, replay_by
from tests.replay.recordings import recording

SHEET = sheet_for("claude-sonnet-5").for_ttl(None)


def with_a_pause(seconds: float, *, steps: int = 40, at: int = 30) -> Recording:
    """Return a recording of an agent that waited once for so long."""
    times = [10.0 * call + (seconds if call >= at else 0.0) for call in range(steps)]
    made = recording("one", steps, model="claude-sonnet-5")
    return replace(made, at_seconds=tuple(times))


def replayed_by(made: Recording, **settings: object) -> Replayed:
    [replayed] = replay_by(made, (SHEET,), Compressor(**settings))  # type: ignore[arg-type]
    return replayed


def test_after_a_pause_a_free_edit_saves_and_no_call_costs_more_for_it() -> None:
    replayed = replayed_by(with_a_pause(3_600.0), edits="free")
    whole, edited = (replayed.bills[one] for one in (Policy.AS_IT_WAS, Policy.AGORA))

    assert [place for place, call in enumerate(edited.calls) if call.edited] == [30]
    assert list(edited.saved) == ["free"]
    assert edited.saved["free"] == pytest.approx(whole.dollars - edited.dollars)
    assert edited.calls[30].written < whole.calls[30].written


@pytest.mark.parametrize("seconds", [0.0, SHEET.ttl_seconds, SHEET.ttl_seconds + 40])
def test_without_a_pause_beyond_all_doubt_there_is_no_free_edit(seconds: float) -> None:
    assert not replayed_by(with_a_pause(seconds), edits="free").bills[Policy.AGORA].edits


def test_what_each_kind_of_edit_saves_is_all_that_is_saved() -> None:
    replayed = replayed_by(with_a_pause(3_600.0, steps=90, at=80), forgetting=0.0)
    whole, edited = (replayed.bills[one] for one in (Policy.AS_IT_WAS, Policy.AGORA))

    assert set(edited.saved) == {"free", "warm"}
    assert sum(edited.saved.values()) == pytest.approx(whole.dollars - edited.dollars)


def test_each_action_that_misses_a_name_is_an_extra_call_to_expect() -> None:
    bill = replayed_by(with_a_pause(3_600.0)).bills[Policy.AGORA]

    assert bill.extra_calls == bill.needing - bill.met


@pytest.mark.parametrize("forgetting", [0.0, 1.0])
def test_a_live_session_edits_at_the_calls_of_its_replay(forgetting: float) -> None:
    made = with_a_pause(3_600.0, steps=90, at=80)
    now = 0.0
    compressor = Compressor(sheet=SHEET, forgetting=forgetting)
    session = compressor.session(clock=lambda: now)
    live: list[int] = []
    for call, now in enumerate(made.at_seconds):  # noqa: B007 - the clock reads it
        sent = 2 + 2 * call
        compression = session.compress(made.messages[:sent], model=made.model)
        if compression.state and compression.state.is_new:
            live.append(call)
        session.answered(compression, answer=made.messages[sent])

    bill = replayed_by(made, forgetting=forgetting).bills[Policy.AGORA]

    assert live == [place for place, call in enumerate(bill.calls) if call.edited]
    assert len(live) >= 2


def test_nothing_but_the_schedule_decides_on_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_a_pause(3_600.0)
    eager = Compressor(edits="every_call", strict=True)
    assert eager.compress(made.messages).changed

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(schedule, "Edit", refuse)

    with pytest.raises(PermissionError):
        eager.compress(made.messages)
    with pytest.raises(PermissionError):
        replayed_by(made, edits="free")
