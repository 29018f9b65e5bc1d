import copy
import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.tests.methods.chats import chats, contents, garbled

from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Reason
from agora.core.trajectory import Anchor, Step
from agora_lab.chats import Chat, read, text_of, tokens_of
from agora_lab.methods import NAMES, Method, MethodSettings, SkipMethod, close, method
from agora_lab.methods.agora import ByLot, scorer_named

PEERS = tuple(n for n in NAMES if n.startswith(("langchain", "litellm", "headroom")))
ABLATIONS = ("agora_paper_random_scores",)
"""AGORA with another scorer only: nothing that holds for AGORA can change."""
HERE = tuple(name for name in NAMES if name not in PEERS + ABLATIONS)
WHOLE_STEPS = tuple(n for n in NAMES if n in ("floor", "random_step") or n.startswith("agora"))
MARKER = 14 + 19
NOTE = re.compile(r"\[step \d+: result elided[^\n]*")
"""More than a bare marker costs."""
FEW = settings(max_examples=20, deadline=None)
"""Each property is tried on every method, and a machine may be busy."""
EVERY = pytest.mark.parametrize("name", HERE)


def made(name: str, keep_ratio: float = 0.25, **options: Any) -> Method:
    return method(
        name,
        MethodSettings(
            keep_ratio=keep_ratio,
            model="gpt-4o",
            # The paper's method has no scorer of its own.
            scorer="random" if name.startswith("agora_paper") else None,
            options=options,
        ),
    )


@EVERY
@FEW
@given(chat=chats())
def test_what_was_given_is_not_changed(name: str, chat: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(chat)

    made(name).shorten(chat)

    assert chat == before


@EVERY
@FEW
@given(chat=chats(least=1))
def test_what_the_agent_has_to_act_on_stays(name: str, chat: list[dict[str, Any]]) -> None:
    shortened = made(name).shorten(chat).messages

    assert text_of(shortened[-1]).startswith(text_of(chat[-1]))


@EVERY
@FEW
@given(chat=chats())
def test_instructions_and_task_stay(name: str, chat: list[dict[str, Any]]) -> None:
    shortened = made(name).shorten(chat).messages

    assert shortened[0] == chat[0]
    assert text_of(shortened[1]).startswith(text_of(chat[1]))


@EVERY
@FEW
@given(chat=chats())
def test_a_used_method_says_the_same_as_a_new_one(name: str, chat: list[dict[str, Any]]) -> None:
    used = made(name)
    for end in range(2, len(chat), 2):
        used.shorten(chat[:end])

    assert used.shorten(chat) == used.shorten(chat) == made(name).shorten(chat)


@EVERY
@FEW
@given(chat=garbled)
def test_no_messages_are_too_garbled(name: str, chat: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(chat)

    shortened = made(name).shorten(chat)

    assert chat == before
    assert all(isinstance(text_of(message), str) for message in shortened.messages)


@pytest.mark.parametrize("name", WHOLE_STEPS)
@FEW
@given(chat=chats(least=1))
def test_a_kept_step_is_kept_to_the_letter(name: str, chat: list[dict[str, Any]]) -> None:
    shortened = made(name).shorten(chat).messages

    said = {str(message["content"]) for message in chat}
    for text in contents(shortened):
        head = text.split("\n\n[")[0]
        assert head in said or text in said or NOTE.fullmatch(head)


@pytest.mark.parametrize("name", HERE)
@FEW
@given(chat=chats(least=1))
def test_user_and_agent_take_turns(name: str, chat: list[dict[str, Any]]) -> None:
    roles = [message["role"] for message in made(name).shorten(chat).messages]

    assert roles[:2] == ["system", "user"]
    assert all(a != b for a, b in itertools.pairwise(roles))


@FEW
@given(chat=chats(), ratio=st.floats(0, 1))
def test_room_is_what_the_budget_of_agora_gives(chat: list[dict[str, Any]], ratio: float) -> None:
    compression = Compressor(budget=Budget(keep_ratio=ratio), schedule="every_call").compress(
        chat, observations="user"
    )

    assert read(chat).tokens == compression.tokens_before
    if compression.reason is Reason.WITHIN_BUDGET:
        assert read(chat).tokens <= read(chat).room(ratio)


@pytest.mark.parametrize("name", ["random_step", "floor_matched"])
@FEW
@given(chat=chats(least=3), ratio=st.floats(0.1, 1))
def test_methods_with_one_keep_ratio_stay_within_one_room(
    name: str, chat: list[dict[str, Any]], ratio: float
) -> None:
    whole = read(chat)
    shortened = made(name, ratio).shorten(chat).messages
    # Nothing is below the floor, and of each run of steps a marker is left.
    least = max(_floor_tokens(whole), tokens_of([*whole.preamble, chat[-1]]))
    markers = MARKER * max(1, sum("elided" in text for text in contents(shortened)))

    assert tokens_of(shortened) <= max(whole.room(ratio), least) + markers


def test_realised_compression_is_near_its_target() -> None:
    chat = _long_chat(60)
    target = read(chat).room(0.25) / read(chat).tokens

    realised = tokens_of(made("random_step").shorten(chat).messages) / read(chat).tokens

    assert target == pytest.approx(0.25, abs=0.01)
    assert realised == pytest.approx(target, rel=0.1)


def test_the_released_defaults_leave_a_small_prompt_alone_and_say_why() -> None:
    shortened = made("observation_mask").shorten(_long_chat(8))

    assert shortened.messages == _long_chat(8)
    assert shortened.detail


def test_masking_keeps_every_action() -> None:
    chat = _long_chat(30)

    shortened = made("observation_mask").shorten(chat).messages

    assert contents(shortened)[2::2] == contents(chat)[2::2]
    assert contents(shortened)[-20:] == contents(chat)[-20:]
    assert contents(shortened)[3] == "[old observation left out]"


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(ValueError, match="use one of none, floor"):
        method("telepathy")


def test_a_scorer_that_knows_nothing_is_spread_evenly_and_stays_the_same() -> None:
    steps = [Step(number=n, action="look", observation=str(n), tokens=1) for n in range(1, 2_001)]
    scores = scorer_named("random", 1).score(Anchor("task", "now"), steps)

    assert scores == ByLot(1).score(Anchor("other task", "later"), steps)
    assert scores != ByLot(2).score(Anchor("task", "now"), steps)
    assert 0 <= min(scores) <= max(scores) < 1
    assert sum(scores) / len(scores) == pytest.approx(0.5, abs=0.03)


def test_a_scorer_is_taken_by_name_and_one_that_is_not_there_skips_the_method() -> None:
    named = method("agora_paper", MethodSettings(scorer="random"))
    assert named == method("agora_paper_random_scores")
    with pytest.raises(SkipMethod, match="no scorer"):
        method("agora", MethodSettings(scorer="no/such/bundle"))


def test_without_its_scorer_the_papers_preset_is_the_floor() -> None:
    chat = _long_chat(12)

    assert contents(made("agora_paper_no_scorer").shorten(chat).messages) == contents(
        made("floor").shorten(chat).messages
    )


def test_without_the_floor_more_of_the_past_may_stay_and_less_of_the_present() -> None:
    chat = _long_chat(20)
    whole = made("agora_paper").shorten(chat).messages
    without = made("agora_paper_no_floor").shorten(chat).messages

    assert chat[-3] in whole
    assert chat[-1] in without


def test_closing_a_method_that_started_nothing_is_nothing() -> None:
    close(made("none"))


def _floor_tokens(chat: Chat) -> int:
    return chat.preamble_tokens + sum(chat.steps[n - 1].tokens for n in chat.floor())


def _long_chat(steps: int) -> list[dict[str, Any]]:
    chat = [
        {"role": "system", "content": "You act in a house."},
        {"role": "user", "content": "Put a mug in the desk."},
    ]
    for number in range(steps):
        seen = ", ".join(f"a mug {number + k}" for k in range(9))
        chat.append({"role": "assistant", "content": f"go to shelf {number}"})
        chat.append({"role": "user", "content": f"On the shelf {number}, you see {seen}."})
    return chat
