"""A schedule is what it answers: equal edits give equal bytes, whoever returns them."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agora import Compressor, Schedule
from agora.core.prices import sheet_for
from agora.core.rent_or_buy import Edit, EveryCall, Never, RentOrBuy, Sizes
from agora.formats import FORMATS
from harness.histories import EveryNth, History, RandomScorer
from harness.histories.strategies import histories

EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "100"))
SHEET = replace(sheet_for("claude-opus-4-8"), minimum_prefix=0)
SCHEDULES: tuple[Schedule, ...] = (
    EveryCall(),
    EveryCall(min_tokens=300),
    Never(),
    EveryNth(2),
    RentOrBuy(SHEET),
    RentOrBuy(replace(SHEET, window=600)),
    RentOrBuy(replace(SHEET, read=1.0, write=1.0)),
    RentOrBuy(replace(SHEET, minimum_prefix=400)),
)


@dataclass(frozen=True)
class Somebodys:
    """A schedule of no kind that is known here, with the answers of another one."""

    ask: Callable[[Sizes], Edit]

    def edit(self, sizes: Sizes) -> Edit:
        return self.ask(sizes)


def every_history(check: Callable[[History, Any], None], format_name: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(history=histories(format_name), schedule=st.sampled_from(SCHEDULES))
    def run(history: History, schedule: Schedule) -> None:
        check(history, schedule)

    run()


@pytest.mark.parametrize("format_name", FORMATS)
def test_two_schedules_that_return_equal_edits_give_equal_bytes(format_name: str) -> None:
    def check(history: History, schedule: Schedule) -> None:
        known = Compressor(schedule=schedule, scorer=RandomScorer(3))
        unknown = replace(known, schedule=Somebodys(schedule.edit))

        assert known.compress(history.messages, **history.request) == unknown.compress(
            history.messages, **history.request
        )

    every_history(check, format_name)


@pytest.mark.parametrize("format_name", FORMATS)
def test_ones_own_schedule_for_every_call_keeps_what_the_named_one_keeps(format_name: str) -> None:
    mine = Somebodys(lambda sizes: Edit(len(sizes.steps), sees_newest=True))

    def check(history: History, _: Schedule) -> None:
        named = Compressor(edits="every_call", scorer=RandomScorer(3))

        assert replace(named, schedule=mine).compress(
            history.messages, **history.request
        ) == named.compress(history.messages, **history.request)

    every_history(check, format_name)


def test_a_history_says_what_every_call_was_sent_with() -> None:
    sizes = Sizes(preamble=2_000, steps=(900,) * 40, said=(0,) * 40, residues=(0,) * 40)
    by_call = RentOrBuy(SHEET).edit(sizes).by_call(40)

    for steps in range(41):
        upto = Sizes(preamble=2_000, steps=(900,) * steps, said=(0,) * steps, residues=(0,) * steps)
        edit = RentOrBuy(SHEET).edit(upto)
        assert (edit.epoch, edit.room or 0) == by_call[steps][1:]
