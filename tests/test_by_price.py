"""Where prices say when to edit: between epochs a prompt only grows, on any machine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agora import Budget, Compressor, PriceSheet, Scorer
from agora.formats import FORMATS
from agora.scorers import BM25Scorer, RecencyScorer
from harness.histories import History, RandomScorer
from harness.histories.strategies import histories

EXAMPLES = max(80, int(os.environ.get("AGORA_EXAMPLES", "2000")) // 4)

every_format = pytest.mark.parametrize("format_name", FORMATS)
some_settings = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck)
)
sheets = st.builds(
    PriceSheet,
    name=st.just("drawn"),
    input=st.just(1.0),
    read=st.sampled_from([0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 1.0]),
    write=st.sampled_from([1.0, 1.25, 2.0]),
    output=st.just(1.0),
    minimum_prefix=st.sampled_from([0, 0, 0, 64, 256]),
    block=st.sampled_from([1, 16]),
    window=st.sampled_from([None, None, 400, 1_500]),
)
scorers = st.sampled_from((BM25Scorer(), RecencyScorer(), RandomScorer(7)))


def prompts(history: History, sheet: PriceSheet, scorer: Scorer) -> Iterator[tuple[Any, Any]]:
    """Yield the edit and the prompt of each call that was made."""
    compressor = Compressor(sheet=sheet, scorer=scorer, min_tokens=0)
    for call in history.calls:
        compression = compressor.compress(history.upto(call), **history.request)
        assert compression.state is not None
        edit = compression.state.edit
        yield edit and list(edit), compression.messages


@every_format
def test_between_epochs_each_prompt_begins_with_the_one_before_it(format_name: str) -> None:
    edited = 0

    @some_settings
    @given(histories(format_name), sheets, scorers)
    def run(history: History, sheet: PriceSheet, scorer: Scorer) -> None:
        nonlocal edited
        if sheet.write <= sheet.read:
            return
        previous: Any = None
        previous_edit: Any = None
        for edit, prompt in prompts(history, sheet, scorer):
            if previous is not None and edit == previous_edit:
                assert prompt[: len(previous)] == previous
                edited += edit is not None
            previous, previous_edit = prompt, edit

    run()
    assert edited, "no drawn history was edited before its last call: nothing was seen"


_PROMPTS = """
import json, sys
from agora import PriceSheet
from harness.histories import sample
from agora.scorers.bm25 import BM25Scorer
from tests.test_by_price import prompts
sheet = PriceSheet(name="s", input=1.0, read=0.5, write=1.0, output=1.0)
for history in sample(sys.argv[1], 40, seed=3):
    print(json.dumps(list(prompts(history, sheet, BM25Scorer()))))
"""


def _prompts_in_a_process(format_name: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROMPTS, format_name],
        env={**os.environ, "PYTHONHASHSEED": "random"},
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.splitlines()


@every_format
def test_fresh_processes_agree_on_every_byte_of_every_prompt(format_name: str) -> None:
    first, second = _prompts_in_a_process(format_name), _prompts_in_a_process(format_name)

    assert len(first) == 40
    assert first == second
    for line in first:
        previous_edit = previous = None
        for edit, prompt in json.loads(line):
            if previous is not None and edit == previous_edit:
                assert prompt[: len(previous)] == previous
            previous_edit, previous = edit, prompt


def test_a_budget_is_what_an_edit_by_price_leaves_at_most() -> None:
    sheet = PriceSheet(name="s", input=1.0, read=0.5, write=1.0, output=1.0)
    compressor = Compressor(
        sheet=sheet, budget=Budget(keep_ratio=0.25, min_ratio=0.0), min_tokens=0, forgetting=0.0
    )
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the key."}]
    for number in range(40):
        function = {"name": "look", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "a wall " * 200},
        ]

    compression = compressor.compress(messages)

    after_the_epoch = sum(d.tokens for d in compression.decisions[compression.last_edit :])
    assert compression.tokens_after - after_the_epoch <= 0.25 * compression.tokens_before
