"""What a provider offers itself, beside AGORA: clearing of old results."""

from dataclasses import replace
from itertools import pairwise

from agora import EstimatedTokens, sheet_for
from agora.logs import Recording
from agora.replay import Policy

# Private: the provider's own numbers, which the policy repeats.
from agora.replay.clearing import KEPT_USES, TRIGGER_TOKENS, cleared
from agora.replay.measure import measure
from tests.replay.recordings import recording, replay

SHEET = sheet_for("claude-opus-5")


def long(steps: int = 60) -> Recording:
    """Return a recording that ends far above the trigger."""
    return recording("long", steps, words=1_600, model="claude-opus-5")


def test_results_but_the_newest_three_are_cleared_above_the_trigger_and_not_below() -> None:
    measured = measure(long(), EstimatedTokens())

    prompts = list(cleared(measured, EstimatedTokens()))

    sizes = [sum(segment.tokens for segment in prompt.segments) for prompt in prompts]
    edits = [at for at, prompt in enumerate(prompts) if prompt.edited]
    assert len(edits) > 1
    first = edits[0]
    assert all(not prompt.elided for prompt in prompts[:first])
    gone = [rest.number for rest in prompts[first].elided]
    assert gone == list(range(1, measured.moments[first].steps + 1 - KEPT_USES))
    assert max(sizes) <= TRIGGER_TOKENS
    # Its calls stay: only the results are gone.
    assert all(rest.in_place for rest in prompts[first].elided)


def test_what_was_cleared_stays_so_until_the_trigger_is_reached_again() -> None:
    measured = measure(long(), EstimatedTokens())

    prompts = list(cleared(measured, EstimatedTokens()))

    for before, now in pairwise(prompts):
        assert {rest.number for rest in before.elided} <= {rest.number for rest in now.elided}
        assert now.edited or now.elided == before.elided


def test_the_row_has_its_cost_beside_what_is_still_in_the_prompt() -> None:
    replayed = replay(long(), SHEET)

    row, was = replayed.bills[Policy.CLEARING], replayed.bills[Policy.AS_IT_WAS]

    assert row.offered
    assert row.edits > 1
    assert row.tokens < was.tokens
    assert row.dollars != was.dollars


def test_below_the_trigger_and_where_no_provider_has_it_calls_are_as_they_were() -> None:
    short = replay(recording("short", 10, model="claude-opus-5"), SHEET)
    other = replay(replace(long(), model="gpt-5"), sheet_for("gpt-5"))

    for replayed, offered in ((short, True), (other, False)):
        row = replayed.bills[Policy.CLEARING]
        assert row.calls == replayed.bills[Policy.AS_IT_WAS].calls
        assert row.offered is offered
