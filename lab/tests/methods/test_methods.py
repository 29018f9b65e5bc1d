import copy
import itertools
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.harness.bookings import CODE, by_calls, by_text
from lab.tests.methods.chats import chats, contents, garbled

from agora import Query, Step, parse
from agora_lab.chats import read, text_of, tokens_of
from agora_lab.methods import (
    ASKING,
    NAMES,
    Messages,
    Method,
    MethodSettings,
    Shortened,
    SkipMethod,
    method,
    target_of,
)
from agora_lab.methods.agora_paper import RandomScorer
from agora_lab.methods.commands_first import NOTE
from agora_lab.methods.observation_mask import MASK

PEERS = tuple(n for n in NAMES if n.startswith(("langchain", "litellm", "headroom")))
WEIGHTS = ("selective_context", "long_llmlingua", "llmlingua2", "llmlingua2_retrained")
HERE = tuple(name for name in NAMES if name not in PEERS + WEIGHTS + ASKING)
WHOLE_STEPS = (
    *("floor", "random_step", "agora_paper", "agora_no_floor", "agora_hard_labels"),
    "sliding_window",
)
MARKER = 14 + 19
ELIDED = re.compile(r"\[\.\.\. \d+ step\(s\) elided \.\.\.\]")
FEW = settings(max_examples=20, deadline=None)
"""Each property is tried on every method, and a machine may be busy."""
EVERY = pytest.mark.parametrize("name", HERE)


class Newest:
    """A scorer that prefers newer steps."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        return [step.number / 1_000 for step in steps]


def made(name: str, keep_ratio: float = 0.25, **options: Any) -> Method:
    if name == "agora_hard_labels":
        options.setdefault("scorer", Newest())
    scorer = Newest() if name in ("agora_paper", "agora_no_floor") else None
    return method(
        name,
        MethodSettings(keep_ratio=keep_ratio, model="gpt-4o", scorer=scorer, options=options),
    )


@EVERY
@FEW
@given(chat=chats())
def test_the_callers_messages_are_not_changed(name: str, chat: list[dict[str, Any]]) -> None:
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
def test_a_used_method_gives_the_same_as_a_new_one(name: str, chat: list[dict[str, Any]]) -> None:
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

    original = {str(message["content"]) for message in chat}
    for text in contents(shortened):
        marker = ELIDED.search(text)
        assert (text[: marker.start()].removesuffix("\n\n") if marker else text) in original


@EVERY
@FEW
@given(chat=chats(least=1))
def test_user_and_agent_take_turns(name: str, chat: list[dict[str, Any]]) -> None:
    roles = [message["role"] for message in made(name).shorten(chat).messages]

    assert roles[:2] == ["system", "user"]
    assert all(a != b for a, b in itertools.pairwise(roles))


@pytest.mark.parametrize("name", ["random_step", "agora_paper", "sliding_window"])
@FEW
@given(chat=chats(least=3), ratio=st.floats(0.1, 1))
def test_methods_with_one_keep_ratio_stay_within_one_budget(
    name: str, chat: list[dict[str, Any]], ratio: float
) -> None:
    whole = read(chat)
    sent = list(made(name, ratio).shorten(chat).messages)
    markers = MARKER * sum("elided" in text for text in contents(sent))

    if name == "sliding_window":
        assert tokens_of(sent) <= max(whole.room(ratio), whole.floor_tokens()) + markers
    else:
        size = sum(map(len, contents(sent)))
        floor = sum(map(len, contents(list(made("floor").shorten(chat).messages))))
        frames = 20 * len(chat)
        assert size <= max(ratio * (sum(map(len, contents(chat))) + frames), floor) + markers


def test_truncation_keeps_the_newest_tokens_and_cuts_where_the_limit_falls() -> None:
    chat = _long_chat(60)

    sent = list(made("truncate", tokens=500).shorten(chat).messages)

    assert sent[:2] == chat[:2]
    assert 450 < tokens_of(sent[2:]) <= 500
    assert text_of(chat[-1]) == text_of(sent[-1])
    first = next(at for at, one in enumerate(chat) if one == sent[3])
    assert text_of(chat[first - 1]).endswith(text_of(sent[2]))
    assert made("truncate").shorten(chat[:20]).messages == chat[:20]


def test_masking_keeps_every_action_and_the_newest_observations() -> None:
    chat = _long_chat(30)

    paper = contents(made("observation_mask").shorten(chat).messages)
    source = contents(made("observation_mask_10").shorten(chat).messages)

    assert paper[2::2] == source[2::2] == contents(chat)[2::2]
    assert [text == MASK for text in paper[3::2]] == [True] * 28 + [False] * 2
    assert [text == MASK for text in source[3::2]] == [True] * 20 + [False] * 10


@given(chats(least=1, most=12), st.floats(0, 1))
def test_commands_first_keeps_its_budget_and_the_floor(
    chat: list[dict[str, Any]], share: float
) -> None:
    whole = read(chat)
    sent = list(made("commands_first", share=share).shorten(chat).messages)

    # A marker for omitted steps comes on top.
    assert tokens_of(sent) <= max(whole.room(1, share), whole.floor_tokens()) + 40
    assert [text_of(one) for one in sent[-3:]] == [text_of(one) for one in chat[-3:]]


def test_commands_first_keeps_all_calls_and_notes_for_old_results() -> None:
    messages = list(by_calls(steps=8).messages)
    sent = list(made("commands_first", share=0.6).shorten(messages).messages)
    noted = [one for one in sent if text_of(one) == NOTE]

    assert sum("tool_calls" in one for one in sent) == 8
    assert noted
    assert all(one["role"] == "tool" for one in noted)
    assert parse(sent, format="openai").steps


def test_commands_first_drops_thoughts_and_keeps_commands() -> None:
    messages = list(by_text(steps=8).messages)
    sent = list(made("commands_first", share=0.5).shorten(messages).messages)
    actions = [text_of(one) for one in sent if one["role"] == "assistant"]

    assert actions[0] == "```bash\nlook 1\n```"
    assert actions[-1] == text_of(messages[-2])


@pytest.mark.parametrize(
    "name", ["floor", "sliding_window", "commands_first", "observation_mask_matched"]
)
def test_what_a_user_says_between_tool_calls_is_never_omitted(name: str) -> None:
    messages = list(by_calls(steps=8).messages)
    messages.insert(4, {"role": "user", "content": "And please hurry up with all of this. " * 4})
    options = {} if name == "floor" else {"share": 0.0}

    sent = made(name, **options).shorten(messages).messages

    assert any("hurry up" in text_of(one) for one in sent)
    assert not any(CODE in text_of(one) for one in sent)


def test_random_scores_are_spread_evenly_and_stay_the_same() -> None:
    steps = [Step(number=n, action="look", observation=str(n), tokens=1) for n in range(1, 2_001)]
    scores = RandomScorer(1).score(Query("task", "now"), steps)

    assert scores == RandomScorer(1).score(Query("other task", "later"), steps)
    assert scores != RandomScorer(2).score(Query("task", "now"), steps)
    assert 0 <= min(scores) <= max(scores) < 0.9
    assert sum(scores) / len(scores) == pytest.approx(0.45, abs=0.03)


def test_without_a_scorer_the_papers_method_is_skipped() -> None:
    for name in ("agora_paper", "agora_no_floor", "agora_hard_labels"):
        with pytest.raises(SkipMethod, match=r"weights absent: .*scorer=FOLDER"):
            method(name)
    with pytest.raises(SkipMethod, match=r"weights absent: .*hard labels"):
        method("agora_hard_labels", MethodSettings(scorer=Newest()))
    with pytest.raises(SkipMethod, match="no/such/bundle"):
        method("agora_paper", MethodSettings(scorer="no/such/bundle"))


def test_the_papers_method_with_an_empty_budget_is_the_floor() -> None:
    chat = _long_chat(12)

    assert contents(made("agora_paper", 0.0).shorten(chat).messages) == contents(
        made("floor").shorten(chat).messages
    )


def test_without_the_floor_only_the_newest_step_is_sure_to_stay() -> None:
    chat = _long_chat(20)
    whole = made("agora_paper", 0.0).shorten(chat).messages
    without = made("agora_no_floor", 0.0).shorten(chat).messages

    assert chat[-3] in whole
    assert chat[-3] not in without
    assert chat[-1] in without


def test_an_atom_is_what_the_scorer_reads() -> None:
    from agora.paper import Atom

    seen: list[str] = []

    class Spy:
        def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
            seen.extend(step.observation for step in steps)
            return [0.5] * len(steps)

    spied = MethodSettings(scorer=Spy(), atom=lambda step: Atom(step.action, "shelf=empty"))
    method("agora_paper", spied).shorten(_long_chat(6))

    assert set(seen) == {"shelf=empty"}


def test_an_unknown_name_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="use one of none, truncate"):
        method("telepathy")
    with pytest.raises(ValueError, match="use one of none, truncate"):
        target_of("telepathy", 0.25)


class LastWords:
    """A method from outside this package, as a user would write one."""

    def __init__(self, settings: MethodSettings, *, words: int = 3) -> None:
        self._words = words

    def shorten(self, messages: Messages) -> Shortened:
        sent = [
            {**one, "content": " ".join(text_of(one).split()[-self._words :])} for one in messages
        ]
        return Shortened(messages=sent)


def test_a_method_from_outside_takes_one_file() -> None:
    name = f"{__name__}:LastWords"
    outside = method(name, MethodSettings(options={"words": 2}))

    assert contents(outside.shorten(_long_chat(1)).messages)[0] == "a house."
    assert target_of(name, 0.25) is None


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
