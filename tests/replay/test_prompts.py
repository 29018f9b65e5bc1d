"""What replay bills for a prompt is what the compressor would have sent."""

import pytest

import agora

# Private: that a replayed prompt is as long as the one sent.
from agora.core import Form
from agora.core.markers import tag_of
from agora.formats.tools import offers_recall
from agora.logs import Moment
from agora.replay.prompts import Writer
from harness.properties.case import Case
from harness.properties.draw import drawn

_DRAWN = 120
_ODD = 0.02
"""Replay takes every result for one that can hold a marker. Pictures and nulls cannot, and then the
marker stands among the user's words with a sentence more."""


@pytest.mark.parametrize("format_name", ["openai", "responses", "anthropic", "gemini", "bedrock"])
def test_a_prompt_of_a_replay_is_as_long_as_the_one_that_is_sent(format_name: str) -> None:
    cases = [drawn(format_name, seed) for seed in range(_DRAWN)]
    shortened = [case for case in cases if _elided(case)]

    differ = [case for case in shortened if _replayed(case) != case.compression.tokens_after]

    assert len(shortened) > _DRAWN / 3
    assert len(differ) <= _ODD * len(shortened)


def _elided(case: Case) -> list[Form]:
    decisions = case.compression.decisions if case.compression.changed else ()
    return [one.form for one in decisions if one.form is not None]


def _replayed(case: Case) -> int:
    """Return the tokens of a call with all steps of a case, as replay writes it."""
    compressor = case.setup.compressor
    counter = compressor.counting
    trajectory = agora.parse(case.history.messages, counter=counter, **case.history.request)
    recall, tag = offers_recall(case.history.tools), tag_of(trajectory.task, trajectory.steps[0])
    writer = Writer(
        trajectory,
        lambda first: compressor.markers(recall=recall, tag=tag, first=first),
        counter,
    )
    newest = Moment(len(trajectory.steps), len(trajectory.utterances))
    segments = writer.prompt(newest, _elided(case), len(trajectory.steps))
    texts = sum(map(writer._texts_in, segments))
    return sum(segment.tokens for segment in segments) + texts + trajectory.pending_tokens
