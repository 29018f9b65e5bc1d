import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="the statistics need scipy")

from agora.core.prices import sheet_for
from agora.core.trajectory import Call, Step, Trajectory, Utterance
from agora.errors import AgoraError
from agora.lab.backbones import Messages, prompt_text
from agora.lab.evaluation.conversations import Conversation, of_episode, of_trajectory
from agora.lab.evaluation.fidelity import (
    Anchor,
    Grammar,
    Records,
    draw,
    first_line,
    measure,
    summarise,
)
from agora.lab.evaluation.recorded_bill import recorded_bills
from agora.lab.methods import Method, Settings, Shortened, method
from tests.lab.evaluation.counting import make_player


@dataclass(frozen=True)
class Score:
    logprob: float


@dataclass(frozen=True)
class Choice:
    text: str


@dataclass(frozen=True)
class Reply:
    choices: Sequence[Choice]


class Echo:
    """Finds an action likelier when its last word is in the prompt, and says that word or not."""

    def __init__(self, longest: int = 10**9) -> None:
        self.asked = 0
        self._longest = longest

    async def score(self, messages: Messages, continuation: str) -> Sequence[Score]:
        self.asked += 1
        text = prompt_text(messages)
        if len(text) > self._longest:
            raise AgoraError("longer than the context")
        return [Score(math.log(0.9 if word in text else 0.1)) for word in continuation.split()]

    async def chat(self, messages: Messages) -> Reply:
        text = prompt_text(messages)
        return Reply([Choice("use key9\nbecause" if "key9" in text else "look")])


KEYS = "Here are key5, key6, key7, key8 and key9."


def conversation(task: str, steps: int = 8) -> Conversation:
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "Act."},
        {"role": "user", "content": f"Open the door {task}."},
    ]
    for number in range(steps):
        seen = KEYS if number == 0 else f"Nothing in room {number}, only dust. " * 4
        said = f"use key{number + 1}" if number > 3 else "look"
        messages.append({"role": "assistant", "content": said})
        messages.append({"role": "user", "content": seen})
    return Conversation(source="made up", task=task, id=task, world="", messages=tuple(messages))


class KeepsTheFirst:
    def shorten(self, messages: Messages) -> Shortened:
        return Shortened(messages=[*messages[:4], *messages[-4:]])


METHODS: dict[str, Method] = {
    "none": method("none"),
    "floor": method("floor"),
    "first": KeepsTheFirst(),
}
TALKS = [conversation(str(n)) for n in range(6)]


def run(folder: Path, backbone: Echo, methods: dict[str, Method] | None = None) -> Records:
    records = Records(folder)
    anchors = draw(TALKS, 12)

    async def all_of_it() -> None:
        async for one in measure(
            anchors, methods or METHODS, backbone, grammars={}, done=records.done
        ):
            records.add(one)

    asyncio.run(all_of_it())
    return records


def test_anchors_are_drawn_by_lot_and_the_same_each_time() -> None:
    anchors = draw(TALKS, 12, seed=1)

    assert anchors == draw(TALKS, 12, seed=1)
    assert len(anchors) == 12
    assert all(4 < anchor.step <= 8 for anchor in anchors)
    assert len(draw(TALKS, 1_000)) == 18
    assert draw([conversation("short", 3)], 5) == []


def test_losing_what_an_action_needs_shows_in_its_likelihood_and_in_what_is_said(
    tmp_path: Path,
) -> None:
    rows = {row.method: row for row in summarise(run(tmp_path, Echo()).found)}

    assert rows["none"].logprob_lost.value == 0
    assert rows["none"].agreement.value == 1
    assert rows["floor"].logprob_lost.low > 0.1
    assert rows["floor"].agreement.value == 0
    assert rows["floor"].compression.value > 1
    kept = rows["first"]
    assert kept.logprob_lost.value == 0
    assert kept.changed == kept.anchors == 12
    assert kept.against_floor is not None
    assert kept.against_floor.low > 0
    assert kept.p_floor <= kept.p_holm


def test_going_on_asks_only_what_is_missing(tmp_path: Path) -> None:
    first = Echo()
    run(tmp_path, first)
    with (tmp_path / "fidelity.jsonl").open("ab") as file:
        file.write(b'{"half a line')
    again = Echo()

    assert first.asked == 36
    assert len(run(tmp_path, again).found) == 36
    assert again.asked == 0


def test_a_prompt_that_is_too_long_is_put_down_and_left_out_of_what_is_paired(
    tmp_path: Path,
) -> None:
    records = run(tmp_path, Echo(longest=900))

    assert any(one.error for one in records.found)
    assert not any(one.error for one in records.found if one.method == "floor")
    pairs = {row.anchors for row in summarise(records.found)}
    assert len(pairs) == 1
    assert pairs < {*range(12)}


def test_without_the_whole_prompt_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    records = run(tmp_path, Echo(), {"floor": method("floor")})

    assert summarise(records.found) == []


def test_a_worlds_grammar_and_examples_are_used(tmp_path: Path) -> None:
    episode, _ = make_player().play("4")
    talk = of_episode(episode)
    grammar = Grammar(first_line, str.upper, examples="Example 1\nCount.\n> one more\n1")

    async def measured() -> list[str]:
        anchors = draw([talk], 3)
        assert not anchors, "too short to be drawn"
        found = measure(
            [Anchor(conversation=talk, step=3)],
            {"none": METHODS["none"]},
            Echo(),
            grammars={"counting": grammar},
        )
        return [one.taken async for one in found]

    assert asyncio.run(measured()) == ["ONE MORE"]


def test_tool_calls_are_written_as_text_and_nothing_that_was_said_is_lost() -> None:
    trajectory = Trajectory(
        task="Book it.",
        preamble="You are an agent.\n\nBook it.",
        preamble_tokens=9,
        steps=(
            Step(
                number=1,
                action="",
                observation="2 flights",
                tokens=5,
                calls=(Call("search", '{"to": "JFK"}'),),
            ),
            Step(number=2, action="think", observation="", tokens=5),
        ),
        utterances=(Utterance(after=1, text="The early one.", tokens=3, by_user=True),),
    )
    talk = of_trajectory(trajectory, source="log", task="7", key="7.1")

    assert talk.steps == 2
    assert talk.action(1) == 'search {"to": "JFK"}'
    assert talk.before(2)[-1]["content"] == "2 flights\n\nuser: The early one."
    assert talk.messages[-1]["content"] == "(nothing)"


def test_editing_at_every_call_costs_more_than_sending_everything_with_a_cache() -> None:
    sheets = {name: sheet_for(name) for name in ("claude-sonnet-4-5", "mistral-large")}
    sheets["no cache"] = sheets["mistral-large"].no_cache()
    talks = [conversation(str(n), 40) for n in range(3)]
    bills = list(
        recorded_bills(
            talks,
            ["floor", "agora", "agora_every_call"],
            sheets,
            lambda name, sheet: method(
                name, Settings(options={"sheet": sheet} if name == "agora" else {})
            ),
            lambda name: name == "agora",
        )
    )
    ratio = {(bill.method, bill.sheet): bill.ratio.value for bill in bills}

    assert ratio["none", "no cache"] == 1
    assert ratio["floor", "no cache"] < 0.5
    assert ratio["agora_every_call", "mistral-large"] > ratio["agora", "mistral-large"]
    assert ratio["agora", "mistral-large"] <= 1.02
    assert {bill.trajectories for bill in bills} == {3}
