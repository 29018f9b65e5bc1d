import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Budget, PriceSheet, State, Step, Trajectory, sheet_for
from agora.core import Edit, Lifetime, Tier, Utterance, shipped_sheets

# Private: ten thousand calls of any sizes, for which no messages exist.
from agora.core.calls import Billed, Call, calls_of
from agora.core.schedule import (
    CLOCK_MARGIN_SECONDS,
    FREE_TOKENS,
    Policy,
    advance,
    call_of,
    fold,
    states,
    why_not,
)

CLAUDE = replace(sheet_for("claude-opus-5").for_ttl(None), window=None)
GONE = CLAUDE.ttl_seconds + CLOCK_MARGIN_SECONDS + 1


def sheet(read: float, write: float, minimum: int = 0, tiers: tuple[Tier, ...] = ()) -> PriceSheet:
    return PriceSheet(
        name="x",
        input=1.0,
        read=read,
        write=write,
        output=1.0,
        minimum_prefix=minimum,
        tiers=tiers,
    )


def policy(of: PriceSheet = CLAUDE, **settings: object) -> Policy:
    return Policy(sheet=of, **{"min_tokens": 0, **settings})  # type: ignore[arg-type]


def even(count: int, tokens: int = 1_300, preamble: int = 4_000) -> list[Call]:
    """Return the calls of a session whose steps are alike, one step a call."""
    return [
        Call(at, preamble + at * tokens, max(0, (at - 2) * tokens), preamble) for at in range(count)
    ]


def follow(calls: Sequence[Call], by: Policy) -> list[State]:
    made: list[State] = []
    for call in calls:
        made.append(advance(made[-1] if made else None, call, by))
    return made


def edits(calls: Sequence[Call], by: Policy) -> list[tuple[int, Edit]]:
    """Return the edits with the number of the call at which each was made."""
    made = enumerate(follow(calls, by))
    return [(at, state.edit) for at, state in made if state.is_new and state.edit]


Grown = tuple[float, int, int, float | None, bool]
"""What is new at a call: a share of the largest step, steps, words, silence, another beginning."""


def session(
    preamble: int, opening: float, lost: float, tokens: int, new: list[Grown]
) -> list[Call]:
    calls: list[Call] = []
    prompt, outside, steps, beginning = preamble, 0, 0, 1
    for share, more, tail, idle, changed in new:
        beginning += changed
        calls.append(
            Call(
                steps,
                prompt,
                outside,
                int(opening * preamble),
                tail=tail,
                beginning=beginning,
                idle_seconds=idle,
            )
        )
        outside = int(lost * (prompt - preamble))
        prompt += 1 + int(share * tokens) + tail
        steps += more
    return calls


def any_calls(most: int = 30) -> st.SearchStrategy[list[Call]]:
    """Draw a session: several steps a call, pauses, changed beginnings, what the user says."""
    grown = st.tuples(
        st.floats(0, 1),
        st.sampled_from([1, 1, 1, 3]),
        st.sampled_from([0, 0, 0, 40]),
        st.sampled_from([None, 1.0, 1.0, 1.0, 330.0, 400.0, 5_000.0]),
        st.sampled_from([False] * 15 + [True]),
    )
    return st.builds(
        session,
        st.integers(50, 20_000),
        st.floats(0, 1),
        st.sampled_from([1.0, 1.0, 0.7, 0.0]),
        st.sampled_from([50, 400, 2_000, 9_000]),
        st.lists(grown, min_size=1, max_size=most),
    )


sheets = st.one_of(
    st.sampled_from([replace(one, window=None) for one in shipped_sheets().values()]),
    st.builds(
        sheet,
        st.sampled_from([0.0, 0.02, 0.1, 0.5]),
        st.sampled_from([1.0, 1.25, 2.0]),
        st.sampled_from([0, 1_024, 4_096]),
        st.sampled_from([(), (Tier(20_000, 2.0, 1.5),)]),
    ),
).filter(lambda one: one.write > one.expected_read)
policies = st.builds(
    Policy,
    sheet=sheets,
    budget=st.sampled_from([Budget(), Budget(keep_ratio=0.6), Budget(limit=3_000)]),
    max_cost_ratio=st.sampled_from([1.0, 1.02, 1.05, 1.2]),
    min_tokens=st.sampled_from([0, 4_096]),
    forgetting=st.sampled_from([0.0, 0.5, 1.0]),
    edits=st.sampled_from(["by_price", "by_price", "free"]),
)


def price(of: PriceSheet, prompt: int, cached: int) -> float:
    """Return the cost of a call, by the test's own count of a cache with the last prompt."""
    if prompt < of.minimum_prefix:
        return prompt * of.tier(prompt).input
    cached = cached if cached >= of.minimum_prefix else 0
    tokens = of.expected_read * cached + of.write * (prompt - cached)
    return tokens * of.tier(prompt).input


def is_gone(call: Call, before: Call | None, of: PriceSheet) -> bool:
    if before is None:
        return call.steps == 0
    lives = max([of.ttl_seconds, *(life.seconds for life in of.lifetimes)])
    idle = not of.ttl_assumed and (call.idle_seconds or 0) > lives + CLOCK_MARGIN_SECONDS
    return idle or call.beginning != before.beginning


def worst_ratio(calls: Sequence[Call], by: Policy) -> float:
    """Return the highest bill at any call, as a ratio to never editing."""
    paid = whole = worst = 0.0
    before, removed = None, 0
    for call, state in zip(calls, follow(calls, by), strict=True):
        total = call.prompt + call.tail
        cached = 0 if is_gone(call, before, by.sheet) else total
        if before is not None:
            cached = min(cached, before.prompt + before.tail)
        sent = call.opening if state.is_new else max(0, cached - removed)
        paid += price(by.sheet, total - state.removed, sent if cached else 0)
        whole += price(by.sheet, total, cached)
        before, removed = call, state.removed
        worst = max(worst, paid / whole if whole else 0.0)
    return worst


@given(calls=any_calls(), by=policies)
def test_wherever_a_session_ends_its_bill_is_within_the_ceiling(
    calls: list[Call], by: Policy
) -> None:
    assert worst_ratio(calls, by) <= by.max_cost_ratio * (1 + 1e-9)


@pytest.mark.parametrize("most", [1.0, 1.01, 1.02, 1.05])
def test_where_edits_would_cost_more_than_the_ceiling_they_wait_or_remove_more(
    most: float,
) -> None:
    calls = even(60)
    assert worst_ratio(calls, policy(forgetting=0.0, max_cost_ratio=math.inf)) > 1.06

    by = policy(forgetting=0.0, max_cost_ratio=most)

    assert worst_ratio(calls, by) <= most
    assert bool(edits(calls, by)) == (most > 1.0)


@given(calls=any_calls(), by=policies)
def test_between_edits_a_prompt_only_grows_and_no_edit_is_undone(
    calls: list[Call], by: Policy
) -> None:
    last = State()
    for call, state in zip(calls, follow(calls, by), strict=True):
        if not state.is_new:
            assert (state.edit, state.removed) == (last.edit, last.removed)
        else:
            assert state.edit is not None
            assert state.edit.steps == call.steps
            assert 0 < state.removed <= call.outside
        last = state


@given(calls=any_calls(), by=policies)
def test_a_free_edit_is_made_only_when_the_cache_is_gone_and_much_can_be_removed(
    calls: list[Call], by: Policy
) -> None:
    before = last = None
    for call, state in zip(calls, follow(calls, by), strict=True):
        if state.is_new and state.edit and state.edit.why == "free":
            assert is_gone(call, before, by.sheet)
            assert call.outside - (last.removed if last else 0) >= FREE_TOKENS
        before, last = call, state


@given(calls=any_calls(), by=policies)
def test_a_state_comes_back_from_its_row_and_goes_on_alike(calls: list[Call], by: Policy) -> None:
    *_, state = follow(calls, by)
    text = json.dumps(state.row())
    again = State.from_row(json.loads(text))

    assert again is not None
    assert again.row() == state.row()
    assert (again.edit, again.removed, again.prompt) == (state.edit, state.removed, state.prompt)
    assert len(text) <= 300


def test_a_large_state_is_at_most_300_bytes_and_another_version_s_row_is_none() -> None:
    big = State(
        Edit(10_000, 1_000_000, "window"), True, 900_000, 10_000, 10_000, 1_000_000, 2**63,
        *(123_456_789.12, 1e9 / 3, 1e9 / 7, 1e6 / 3, 1e6 / 7, 1_000_000, 1e6 / 9, 1.0625),
        *(4, 1e6 / 11, 100_000),
    )  # fmt: skip

    assert len(json.dumps(big.row())) <= 300
    assert State.from_row([0, *big.row()[1:]]) is None


def test_an_edit_is_due_at_the_first_call_whose_rent_has_paid_for_it() -> None:
    cheap = policy(sheet(0.1, 1.0), forgetting=0.5, max_cost_ratio=math.inf)
    rent, due = 0.0, []
    for call in even(40):
        room = max(0.25 * call.prompt, call.prompt - 0.9 * call.outside)
        removes = max(0.0, call.prompt - room)
        rent += 0.1 * removes
        if rent >= 0.9 * (room - 1_300 - 4_000) + 0.5 * removes > 0:
            due.append(call.steps)

    assert edits(even(40), cheap)[0][0] == due[0]


@given(calls=any_calls(), one=st.sampled_from([0.5, 1.0, 2.0]))
def test_forgetting_that_costs_more_never_brings_the_first_edit_forward(
    calls: list[Call], one: float
) -> None:
    calls = [call._replace(idle_seconds=None, beginning=0) for call in calls]
    free = edits(calls, policy(forgetting=0.0))
    dear = edits(calls, policy(forgetting=one))

    assert not dear or free[0][0] <= dear[0][0]


def test_after_a_silence_a_tenth_of_what_may_be_removed_stays() -> None:
    calls = even(20)
    calls[-1] = calls[-1]._replace(idle_seconds=GONE)

    [(_, edit)] = edits(calls, policy(edits="free"))

    assert edit.why == "free"
    assert calls[-1].prompt - (edit.room or 0) == int(0.9 * calls[-1].outside)


@pytest.mark.parametrize(
    ("change", "is_edited"),
    [
        ({"idle_seconds": GONE}, True),
        ({"idle_seconds": GONE - 2}, False),
        ({"idle_seconds": None}, False),
        ({"beginning": 8}, True),
        ({"beginning": 0}, False),
    ],
)
def test_a_free_edit_needs_a_silence_longer_than_the_lifetime_or_another_beginning(
    change: dict[str, float], is_edited: bool
) -> None:
    calls = [call._replace(beginning=7) for call in even(20)]
    calls[-1] = calls[-1]._replace(**change)  # type: ignore[arg-type]

    assert bool(edits(calls, policy(edits="free"))) == is_edited


def test_without_a_named_lifetime_the_longest_counts_and_an_assumed_one_proves_nothing() -> None:
    calls = even(20)
    calls[-1] = calls[-1]._replace(idle_seconds=GONE)
    unnamed = replace(CLAUDE, lifetimes=(Lifetime("1h", 3_600, 2.0),))
    assumed = replace(CLAUDE, ttl_assumed=True)

    assert not edits(calls, policy(unnamed, edits="free"))
    assert not edits(calls, policy(assumed, edits="free"))


def test_an_edit_that_removes_too_little_is_dropped_and_the_next_one_expects_less() -> None:
    calls = even(60)
    due, edit = edits(calls, policy())[0]
    *_, before = follow(calls[:due], policy())
    call = calls[due]
    implied = call.prompt - (edit.room or 0)

    dropped = advance(before, call._replace(removes=implied // 3), policy())
    taken = advance(before, call._replace(removes=implied), policy())

    assert (dropped.edit, dropped.is_new) == (None, False)
    assert dropped.shortfall == implied - implied // 3
    assert taken.is_new
    assert taken.removed == implied
    assert not advance(dropped, calls[due + 1], policy()).is_new


def test_a_prompt_that_would_not_fit_is_edited_whatever_it_costs() -> None:
    small = policy(replace(CLAUDE, window=20_000), edits="free", min_tokens=10**6)

    made = edits(even(14), small)

    assert [(at, edit.why) for at, edit in made] == [(13, "window")]
    assert (made[0][1].room or 0) <= 10_000
    assert edits([*even(12), even(13)[-1]._replace(pending=9_000)], small)


def test_usage_that_shows_a_lost_cache_is_believed() -> None:
    calls = even(60)
    at, _ = edits(calls, policy())[0]
    *_, state = follow(calls[: at + 1], policy())
    [kept] = follow_from(state, [calls[at + 1]])
    sent = kept.prompt - kept.removed
    warm = Billed(0, read=sent - 1_300, written=1_300)
    lost = Billed(0, read=0, written=sent)

    alive, dead = (
        advance(kept, calls[at + 2]._replace(usage=usage), policy()) for usage in (warm, lost)
    )

    unit = CLAUDE.input
    assert alive.whole - alive.paid == pytest.approx(
        kept.whole - kept.paid + unit * CLAUDE.read * kept.removed
    )
    assert dead.whole - dead.paid == pytest.approx(
        kept.whole - kept.paid + unit * CLAUDE.write * kept.removed
    )


def follow_from(state: State, calls: Sequence[Call]) -> list[State]:
    return [state := advance(state, call, policy()) for call in calls]


def test_usage_counts_in_the_provider_s_tokens() -> None:
    first, second = even(2)
    double = Billed(0, 0, 2 * first.prompt)

    state = advance(advance(None, first, policy()), second._replace(usage=double), policy())

    assert state.scale == 2.0
    assert state.paid == 2 * first.prompt * CLAUDE.write * CLAUDE.input


def test_a_due_edit_waits_for_the_user_where_it_would_take_out_thinking() -> None:
    calls = even(60)
    due, _ = edits(calls, policy())[0]
    loop = [call._replace(thinking=20_000) for call in calls]
    spoken = [*loop[: due + 3], loop[due + 3]._replace(thinking=0), *loop[due + 4 :]]

    assert edits(loop, policy())[0][0] > due
    assert edits(spoken, policy())[0][0] == due + 3


def test_an_edit_that_saves_too_little_of_the_next_call_is_not_made_by_price() -> None:
    dear_answers = replace(CLAUDE, output=100 * CLAUDE.output)
    calls = [call._replace(output=500) for call in even(60)]

    assert edits(calls, policy())
    assert not edits(calls, policy(dear_answers))


def test_a_small_prompt_is_left_alone() -> None:
    calls = even(60, tokens=60)
    assert not edits(calls, policy(min_tokens=10_000))
    assert edits(calls, policy(min_tokens=0))


def test_modes() -> None:
    calls = even(30)
    free = replace(CLAUDE, read=1.0, write=1.0)

    assert not edits(calls, policy(edits="never"))
    assert [at for at, _ in edits(calls, policy(edits="every_call"))] == list(range(30))
    assert {edit.room for _, edit in edits(calls, policy(free, min_tokens=9_000))} == {None}
    assert edits(calls, policy(free, min_tokens=9_000))[0][0] == 4


def trajectory(steps: int, said: tuple[Utterance, ...] = (), **more: object) -> Trajectory:
    return Trajectory(
        task="t",
        preamble="t",
        preamble_tokens=4_000,
        steps=tuple(
            Step(at, "a", "o", tokens=1_300, action_tokens=100) for at in range(1, steps + 1)
        ),
        utterances=said,
        **more,  # type: ignore[arg-type]
    )


def words(after: int, *, by_user: bool = True) -> Utterance:
    return Utterance(after=after, text="go on", tokens=10, by_user=by_user)


@given(
    steps=st.integers(0, 40),
    more=st.integers(0, 10),
    after=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=4).map(sorted),
)
def test_an_unknown_past_is_the_same_however_far_the_session_has_come(
    steps: int, more: int, after: list[tuple[int, bool]]
) -> None:
    said = tuple(words(at, by_user=by_user) for at, by_user in after if at < steps)
    long = list(states(trajectory(steps + more, said), policy()))
    short = list(states(trajectory(steps, said), policy()))

    assert long[: len(short)] == short
    assert fold(trajectory(steps, said), policy()) == short[-1]


def test_the_calls_of_a_trajectory_have_its_sizes() -> None:
    said = (words(2, by_user=False), words(2))
    calls = calls_of(trajectory(4, said, pending_tokens=7), CLAUDE, 2, pinned={1})

    assert [(call.steps, call.prompt, call.tail) for call in calls] == [
        (0, 4_000, 0),
        (1, 5_300, 0),
        (2, 6_600, 0),
        (2, 6_600, 20),
        (3, 7_920, 0),
        (4, 9_220, 0),
    ]
    assert [call.outside for call in calls] == [0, 0, 0, 0, 0, 1_300 - 16]
    assert [call.pending for call in calls] == [0, 0, 0, 0, 0, 7]
    assert call_of(trajectory(4, said, pending_tokens=7), policy(), pinned={1}) == calls[-1]


def test_it_is_told_how_long_an_edit_takes() -> None:
    calls = even(60)
    due, _ = edits(calls, policy())[0]

    told = [
        why_not(follow(calls[: due - ahead], policy())[-1], calls[due - ahead - 1], policy())
        for ahead in (0, 3)
    ]
    assert told == ["an edit is due in about 1 call", "an edit is due in about 4 calls"]
    assert why_not(State(), Call(1, 50, 0), policy()) == "no edit is due within 100 calls"


@pytest.mark.timing
@pytest.mark.parametrize("name", ["claude-opus-5", "gpt-5", "claude-haiku-5-5"])
def test_ten_thousand_calls_fold_in_a_tenth_of_a_second(name: str) -> None:
    by, calls = policy(replace(sheet_for(name), window=None)), even(10_000, tokens=30)
    seconds: list[float] = []
    for _ in range(5):
        start = time.process_time()
        follow(calls, by)
        seconds.append(time.process_time() - start)

    assert min(seconds) < 0.1
