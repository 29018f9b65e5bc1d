"""Compressor, replay, explain and gateway ask the schedule the same question, so they agree."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="the extra gateway is not installed")

import agora
import harness.one_question as everybody
from agora.compressor import Compressor
from agora.core.compression import Reason
from agora.core.tokens import EstimatedTokens
from agora.logs import Recording, Usage
from agora.logs.moments import prompt_tokens
from agora.replay.measure import measure
from agora.scorers.recency import RecencyScorer
from harness.one_question import Conversation, ask, ask_log, by_compressor, drawn
from tests.replay.recordings import messages

SOURCES = Path(agora.__file__).parent


@pytest.mark.parametrize("seed", range(20))
def test_everybody_names_the_same_edit_at_every_call(seed: int) -> None:
    asked = ask(drawn(seed))

    assert asked.differences == []
    assert asked.answers["compressor"] == asked.answers["replay"] == asked.answers["explain"]


def test_a_pinned_read_is_known_to_everybody() -> None:
    seeds = (n for n in range(0, 400, 2) if "AGENTS.md" in str(drawn(n).messages))
    conversation = replace(drawn(next(seeds)), compressor=compressor(ceiling=1.2, min_tokens=0))

    assert ask(conversation).differences == []


def test_an_edit_that_makes_the_prompt_no_shorter_is_named_by_nobody() -> None:
    conversation = drawn(15)

    reasons = {by_compressor(conversation, call)[1] for call in conversation.calls}

    assert Reason.NOTHING_GAINED in reasons
    assert ask(conversation).differences == []


@pytest.mark.parametrize("seed", [393, 827])
def test_what_is_said_after_a_call_does_not_force_its_edit(seed: int) -> None:
    assert drawn(seed).sheet().window is not None
    assert ask(drawn(seed)).differences == []


def test_one_who_names_another_edit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation(
        name="talk",
        format="openai",
        messages=messages(20),
        calls=tuple(range(2, 43, 2)),
        model="gpt-4o",
    )
    expected = [by_compressor(conversation, call)[0] for call in conversation.calls]
    assert any(expected)

    monkeypatch.setattr(everybody, "by_gateway", lambda _: iter([0] * len(expected)))
    found = ask(conversation).differences

    assert {one.who for one in found} == {"gateway"}
    assert [one.expected for one in found] == [epoch for epoch in expected if epoch]


def test_explain_counts_what_a_log_does_not_show_as_replay_does() -> None:
    recording = log(14, unseen=30_000)
    eager = compressor(ceiling=1.5)

    asked = ask_log(recording, eager)

    assert asked.differences == []
    assert asked.edited
    # By its messages alone the prompt is too small to be edited at all.
    assert not eager.compress(recording.messages, model=recording.model).changed


def compressor(**settings: float) -> Compressor:
    return Compressor(scorer=RecencyScorer(), **settings)  # type: ignore[arg-type]


def log(steps: int, *, unseen: int) -> Recording:
    """Return a log without its system text, whose usage tells how large that is."""
    said = messages(steps, words=40)[1:]
    calls = tuple(range(1, len(said) + 1, 2))
    bare = Recording(id="r", format="openai", messages=said, model="gpt-4o", calls=calls)
    known = measure(bare, EstimatedTokens())
    sizes = prompt_tokens(known.shown, known.moments)
    usage = tuple(Usage(prompt=unseen + size) for size in sizes)
    return replace(bare, usage=usage, lacks="system text and tools")


def test_the_schedules_question_is_made_in_one_place() -> None:
    places = []
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called == "Sizes.of" or called in ("Sizes", "schedule.Sizes"):
                places.append((file.relative_to(SOURCES).as_posix(), called))

    assert {place for place in places if place[0] != "core/schedule.py"} == {
        ("compressor.py", "Sizes.of")
    }
