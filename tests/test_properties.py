"""What holds for every input: the eight properties, for each of the six formats.

`AGORA_EXAMPLES` says how many histories each property sees in each format.
"""

import hashlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agora import Compressor
from agora.formats import FORMATS
from harness.histories import History, sample
from harness.histories.strategies import histories
from harness.properties.case import SETUP_BYTES, Case
from harness.properties.checks import (
    check_deterministic,
    check_floor,
    check_forgery,
    check_illegal,
    check_legal,
    check_never_more,
    check_prefix,
    check_verbatim,
)
from harness.properties.markers import TEXT_FORMATS

EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "2000"))

every_format = pytest.mark.parametrize("format_name", FORMATS)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep a warning for each failing scorer out of the report."""
    logger = logging.getLogger("agora.compressor")
    logger.disabled = True
    yield
    logger.disabled = False


_SETUP_TAPES = st.binary(min_size=SETUP_BYTES, max_size=SETUP_BYTES)


def for_every_case(check: Callable[[Case], None], format_name: str) -> None:
    """Run a check on as many drawn cases as were asked for."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(history=histories(format_name), tape=_SETUP_TAPES)
    def run(history: History, tape: bytes) -> None:
        check(Case(history, tape))

    run()


# 1 — legality


@every_format
def test_1_what_was_legal_stays_legal_and_no_guard_was_needed(format_name: str) -> None:
    for_every_case(check_legal, format_name)


@every_format
def test_1_what_was_illegal_comes_back_as_the_same_object(format_name: str) -> None:
    for_every_case(check_illegal, format_name)


# 2 — the floor


@every_format
def test_2_the_floor_is_kept_and_only_the_floor_may_overspend(format_name: str) -> None:
    for_every_case(check_floor, format_name)


# 3 — verbatim


@every_format
def test_3_every_text_is_the_callers_or_a_marker_whose_names_stand_in_its_step(
    format_name: str,
) -> None:
    for_every_case(check_verbatim, format_name)


# 4 — determinism


@every_format
def test_4_the_same_messages_give_the_same_bytes_and_a_second_time_never_larger(
    format_name: str,
) -> None:
    for_every_case(check_deterministic, format_name)


_DIGEST = """
import hashlib, json, sys
from agora import Budget, Compressor
from harness.histories import sample

digest = hashlib.sha256()
for history in sample(sys.argv[1], 50, seed=11):
    for budget in (Budget(limit=0), Budget(keep_ratio=0.4)):
        compressor = Compressor(budget=budget, edits="every_call")
        compression = compressor.compress(history.messages, **history.request)
        digest.update(json.dumps([compression.messages, str(compression.decisions)]).encode())
print(digest.hexdigest())
"""


@every_format
def test_4_processes_with_other_hash_seeds_give_the_same_bytes(format_name: str) -> None:
    digests = {_digest_in_a_process(format_name, seed) for seed in ("0", "4242")}

    assert len(digests) == 1
    assert digests != {hashlib.sha256().hexdigest()}


def _digest_in_a_process(format_name: str, seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _DIGEST, format_name],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.strip()


# 5 — the prefix


@every_format
def test_5_between_epochs_each_prompt_begins_with_the_one_before_it(format_name: str) -> None:
    for_every_case(check_prefix, format_name)


# 6 — never more


@every_format
def test_6_never_more_tokens_out_than_in_and_no_gain_gives_the_same_object_back(
    format_name: str,
) -> None:
    for_every_case(check_never_more, format_name)


# 7 — linear time. The real measurement, from 1,000 to 10,000 steps, is a benchmark (`just
# bench-time`); this one only sees that nothing blows up.


@every_format
def test_7_four_times_the_steps_do_not_take_ten_times_as_long(format_name: str) -> None:
    small = max(sample(format_name, 60, seed=3, max_steps=8), key=lambda h: h.steps)
    grown = {times: _grown(small, times) for times in (50, 200)}

    def best(messages: Any) -> float:
        took = []
        for _ in range(3):
            start = time.process_time()
            Compressor().compress(messages, **small.request)
            took.append(time.process_time() - start)
        return min(took)

    assert best(grown[200]) < 10 * best(grown[50]) + 0.05


def _grown(history: History, times: int) -> Any:
    """Return the history's steps again and again after its task."""
    start = min(positions[0] for positions in history.closed)
    if history.format in TEXT_FORMATS:
        end = max(end for _, end in history.closed)
        steps = history.messages[start:end].rstrip() + "\n"
        return history.messages[:start] + steps * times
    own = [position for positions in history.closed for position in positions]
    return [
        *history.messages[:start],
        *(
            _renamed(history.messages[position], round_)
            for round_ in range(times)
            for position in sorted(own)
        ),
    ]


_IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id", "toolUseId"})


def _renamed(value: Any, round_: int) -> Any:
    """Return a message whose ids are its own in this round."""
    if isinstance(value, list):
        return [_renamed(item, round_) for item in value]
    if isinstance(value, dict):
        return {
            key: f"{item}_{round_}" if key in _IDS else _renamed(item, round_)
            for key, item in value.items()
        }
    return value


# 8 — forgery


@every_format
def test_8_a_forged_marker_changes_nothing_that_neutral_text_of_its_length_would_not(
    format_name: str,
) -> None:
    for_every_case(check_forgery, format_name)
