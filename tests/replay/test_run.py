from collections.abc import Generator, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora import EstimatedTokens, Step, Trajectory, sheet_for

# Private: segments of a replayed prompt, of which a bill shows the sum.
from agora.core import Call, Form, Markers, Place, Utterance, omitted, shipped_sheets
from agora.errors import AgoraError
from agora.logs import Moment, Recording, Usage
from agora.replay import MOST_CALLS, OWN, Policy, Pricing, ReplayOutcome, replay_by, run
from agora.replay.prompts import Writer
from tests.replay.recordings import recording, replay


def test_outcomes_come_in_order_and_are_the_same_with_more_workers() -> None:
    recordings = [recording(f"r{n}", n % 5, words=20) for n in range(20)]

    alone = list(run(recordings, Pricing()))
    together = list(run(recordings, Pricing(), workers=2))

    assert [outcome.id for outcome in alone] == [one.id for one in recordings]
    assert together == alone


def test_a_recording_that_fails_is_reported_and_the_next_one_is_replayed() -> None:
    bad = Recording(id="bad", format="openai", messages=[{"role": "tool", "content": 7}])
    strange = Recording(id="strange", format="no such format", messages=[])

    outcomes = list(run([bad, strange, recording("good", 2)], Pricing()))

    assert [bool(outcome.error) for outcome in outcomes] == [True, True, False]
    assert not outcomes[1].by_sheet
    assert list(outcomes[2].by_sheet) == [OWN]


def test_no_more_is_read_ahead_than_the_workers_need() -> None:
    taken = 0
    ahead = []

    def recordings() -> Iterator[Recording]:
        nonlocal taken
        for n in range(60):
            taken += 1
            yield recording(f"r{n}", 0)

    for done, _ in enumerate(run(recordings(), Pricing(), workers=2)):
        ahead.append(taken - done)

    assert len(ahead) == 60
    assert max(ahead) <= 8


def test_the_workers_end_when_nobody_wants_the_rest() -> None:
    outcomes = run((recording(f"r{n}", 1) for n in range(40)), Pricing(), workers=2)

    assert isinstance(next(outcomes), ReplayOutcome)
    assert isinstance(outcomes, Generator)
    outcomes.close()


def test_a_trajectory_too_long_to_replay_says_so() -> None:
    endless = recording("endless", MOST_CALLS + 1, words=0)

    with pytest.raises(AgoraError, match=r"it has 4,001 calls"):
        replay(endless, sheet_for("gpt-4o"))


@settings(max_examples=20, deadline=None)
@given(
    steps=st.integers(0, 12),
    words=st.integers(0, 400),
    names=st.lists(st.sampled_from(sorted(shipped_sheets())), min_size=1, unique=True, max_size=4),
)
def test_several_sheets_at_once_give_what_each_gives_alone(
    steps: int, words: int, names: list[str]
) -> None:
    one = recording("one", steps, words=words)
    sheets = [shipped_sheets()[name] for name in names]

    assert replay_by(one, sheets) == tuple(replay(one, sheet) for sheet in sheets)


def test_where_nothing_is_cached_agora_sees_nothing_that_was_said_later() -> None:
    said = recording("said", 12)
    later = [*said.messages, {"role": "user", "content": "And now? " * 3_000}]
    longer = Recording(id="said", format="openai", messages=later, model="gpt-4o")
    sheet = shipped_sheets()["self-hosted"]

    before = replay(said, sheet).bills[Policy.AGORA].calls
    after = replay(longer, sheet).bills[Policy.AGORA].calls

    assert after[: len(before)] == before


def test_the_steps_listed_as_elided_are_those_the_last_call_left_out() -> None:
    replayed = replay(recording("one", 40), sheet_for("gpt-4o"))
    bill = replayed.bills[Policy.AGORA]

    assert bill.edits
    assert replayed.elided
    numbers = [step.number for step in replayed.elided]
    assert numbers == sorted(set(numbers))
    last = bill.calls[-1]
    left_out = sum(step.tokens for step in replayed.elided)
    whole = replayed.bills[Policy.AS_IT_WAS].calls[-1]
    sent = last.uncached + last.read + last.written
    assert sent >= whole.uncached + whole.read + whole.written - left_out


def test_a_call_whose_answer_was_never_sent_back_is_billed_too() -> None:
    cut = recording("cut", 6)
    logged = replace(cut, calls=tuple(range(2, len(cut.messages) + 1, 2)))
    sheet = sheet_for("gpt-4o")

    before = replay(cut, sheet).bills[Policy.AS_IT_WAS].calls
    after = replay(logged, sheet).bills[Policy.AS_IT_WAS].calls

    assert after[:-1] == before
    assert len(after) == len(logged.calls)
    last = after[-1]
    assert last.uncached + last.read + last.written == replay(cut, sheet).tokens


def test_a_sheet_is_named_for_all_or_found_by_the_model() -> None:
    gpt, claude = sheet_for("gpt-5"), sheet_for("claude-sonnet-5")

    own = Pricing(others=(gpt, claude))
    assert {key: sheet.name for key, sheet in own.of("gpt-4o").items()} == {
        OWN: "gpt-4o",
        "gpt-5": "gpt-5",
        "claude-sonnet-5": "claude-sonnet-5",
    }
    fixed = Pricing(fixed=gpt, others=(gpt, claude))
    assert fixed.keys == ("gpt-5", "claude-sonnet-5")


def test_a_recording_is_billed_for_the_time_to_live_it_was_written_for() -> None:
    one = recording("one", 40, model="claude-opus-5")
    hours = Usage(100, written=900, written_1h=900)
    short = Usage(100, written=900, written_1h=0)
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    asking = replace(one, tools=[{"type": "function", "function": {"name": "read_file"}, **mark}])

    assert replace(one, usage=(hours, hours, short)).ttl == "1h"
    assert replace(one, usage=(hours, short, short)).ttl is None
    assert replace(asking, usage=(short,)).ttl is None
    assert replace(asking, usage=(Usage(9),)).ttl == "1h"
    assert (one.ttl, asking.ttl) == (None, "1h")
    pricing = Pricing(others=(sheet_for("claude-sonnet-5"),))
    plain, hour = run([one, asking], pricing)
    assert plain.by_sheet[OWN].sheet == "claude-opus-5"
    assert hour.by_sheet[OWN].sheet == "claude-opus-5 (1h)"
    was = hour.by_sheet[OWN].bills[Policy.AS_IT_WAS]
    sheet = sheet_for("claude-opus-5").for_ttl("1h")
    assert was.dollars == pytest.approx(
        sum(sheet.dollars(uncached=c.uncached, read=c.read, written=c.written) for c in was.calls)
    )
    # A sheet that was named is used as it is.
    named = hour.by_sheet["claude-sonnet-5"].bills[Policy.AS_IT_WAS]
    usual = sheet_for("claude-sonnet-5").for_ttl(None)
    assert named.dollars == pytest.approx(
        sum(usual.dollars(uncached=c.uncached, read=c.read, written=c.written) for c in named.calls)
    )
    assert Pricing(fixed=sheet_for("claude-opus-5")).of("m", "1h")["claude-opus-5"].write == 1.25
    assert pricing.of("m", "1h")["claude-sonnet-5"].write == 1.25
    assert Pricing().of("gpt-4o", "1h")[OWN].name == "gpt-4o"


def test_every_result_of_a_step_has_a_note_in_its_place() -> None:
    calls = [("a", "x"), ("b", "y"), ("c", "z")]
    trajectory = Trajectory(
        task="",
        preamble="",
        preamble_tokens=10,
        steps=(
            Step(
                number=1,
                action="",
                observation="",
                tokens=500,
                action_tokens=40,
                calls=tuple(Call(*call) for call in calls),
            ),
        ),
    )
    markers, counter = Markers(), EstimatedTokens()
    writer = Writer(trajectory, lambda _: markers, counter)

    told = Form(1, "note", (Place(None, "ok"), Place(None, "gone")), 0)
    [*_, step] = writer.prompt(Moment(1, 0), [told], 1)

    notes = [markers.note(1, said) for said in ("ok", "gone", "")]
    assert step.tokens == 40 + sum(map(counter.count, notes))


def test_a_marker_stands_behind_the_last_result_though_the_user_spoke_since() -> None:
    def step(number: int) -> Step:
        call = (Call("look", "{}"),)
        return Step(number=number, action="", observation="", tokens=100, calls=call)

    said = [Utterance(after=2, text="and?", tokens=5, by_user=user) for user in (False, True)]
    trajectory = Trajectory(
        task="",
        preamble="",
        preamble_tokens=10,
        steps=tuple(map(step, (1, 2, 3, 4))),
        utterances=tuple(said),
    )
    markers = Markers()
    writer = Writer(trajectory, lambda _: markers, EstimatedTokens())
    elided = [omitted(2), omitted(3)]

    keys = [segment.key for segment in writer.prompt(Moment(4, 2), elided, 3)]
    early = [segment.key for segment in writer.prompt(Moment(3, 2), elided[:], 3)]

    marker = f"\n\n{markers.run(elided)}"
    assert keys == [("preamble", 0), 1, marker, ("said", 0), ("said", 1), 4]
    assert early == keys[:-1]
