"""A compressor that remembers selections returns what one that forgets them returns."""

import copy
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora import Compressor
from agora.testing import FailingScorer
from harness.histories import EveryNth
from harness.histories.strategies import histories

FORMATS = ("openai", "responses", "anthropic", "gemini", "bedrock")


@pytest.mark.parametrize("format", FORMATS)
@settings(deadline=None)
@given(data=st.data())
def test_the_same_messages_give_the_same_prompt_whatever_came_before(
    format: str, data: st.DataObject
) -> None:
    drawn = [data.draw(histories(format)) for _ in range(2)]
    remembers = Compressor(schedule=EveryNth(2), min_tokens=0)

    for history in drawn:
        for call in (*history.calls, *history.calls[::-2]):
            asked = history.upto(call)
            forgets = Compressor(schedule=EveryNth(2), min_tokens=0)
            known = remembers.compress(asked, **history.request)
            fresh = forgets.compress(asked, **history.request)
            assert known.messages == fresh.messages
            assert known.decisions == fresh.decisions
            assert (known.reason, known.tokens_after) == (fresh.reason, fresh.tokens_after)


def _chat(steps: int) -> Sequence[object]:
    messages: list[object] = [{"role": "user", "content": "Read all."}]
    for n in range(steps):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "r", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"line {n} " * 200})
    return messages


def test_a_copy_and_a_pickle_work_and_remember_nothing() -> None:
    compressor = Compressor(schedule="every_call", min_tokens=0)
    before = compressor.compress(_chat(12)).messages

    for other in (copy.deepcopy(compressor), pickle.loads(pickle.dumps(compressor))):
        assert other == compressor
        assert other.compress(_chat(12)).messages == before


def test_what_a_failing_scorer_left_to_the_rule_is_tried_again() -> None:
    scorer = FailingScorer(RuntimeError("no"))
    compressor = Compressor(scorer=scorer, schedule="every_call", min_tokens=0)

    first, second = compressor.compress(_chat(12)), compressor.compress(_chat(12))

    assert first.rung == second.rung == 1
    assert first.messages == second.messages
