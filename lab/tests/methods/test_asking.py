"""Methods that ask a language model, with a model that answers as it is told."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from agora_lab.agents.base import Answer, Messages
from agora_lab.chats import text_of
from agora_lab.methods import ASKING, MethodSettings, SkipMethod, method


class Model:
    """Answers each question by a function, ten tokens in and two out."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.questions: list[str] = []
        self._answer = answer

    def answer(self, messages: Messages, *, max_tokens: int | None = None) -> Answer:
        assert max_tokens
        self.questions.append(text_of(messages[-1]))
        text = self._answer(text_of(messages[0]) + text_of(messages[-1]))
        return Answer(text=text, input_tokens=10, output_tokens=2)


def house(question: str) -> str:
    """Answer what each of the methods asks; a door begins a new subgoal."""
    if "SAME" in question:
        return "NEW: find the way" if "open door" in question.split("Newest step:")[1] else "SAME"
    return "The key is in box 7."


def chat(steps: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You act in a house."},
        {"role": "user", "content": "Find the key."},
    ]
    for number in range(steps):
        action = "open door" if number % 4 == 3 else f"look in box {number}"
        messages.append({"role": "assistant", "content": action})
        messages.append({"role": "user", "content": f"In box {number} " + "there is dust. " * 20})
    return messages


def made(name: str, model: Model, **options: Any) -> Any:
    return method(name, MethodSettings(llm=model, options=options))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ASKING)
def test_without_a_language_model_it_is_skipped(name: str) -> None:
    with pytest.raises(SkipMethod, match="needs a language model"):
        method(name)


@pytest.mark.parametrize("name", ASKING)
def test_an_episode_is_shortened_and_every_question_is_charged(name: str) -> None:
    model = Model(house)
    shortener = made(name, model)
    input_tokens = output_tokens = 0
    for steps in range(13):
        shortened = shortener.shorten(chat(steps))
        input_tokens += shortened.input_tokens
        output_tokens += shortened.output_tokens

    sent = list(shortened.messages)
    whole = chat(12)
    assert (input_tokens, output_tokens) == (
        10 * len(model.questions),
        2 * len(model.questions),
    )
    assert len(set(model.questions)) == len(model.questions) >= 2
    assert sum(map(len, map(text_of, sent))) < 0.6 * sum(map(len, map(text_of, whole)))
    assert sent[0] == whole[0]
    assert text_of(sent[1]).startswith("Find the key.")
    assert sent[-1] == whole[-1]
    assert any("The key is in box 7." in text_of(message) for message in sent)
    roles = [message["role"] for message in sent]
    assert all(a != b for a, b in pairwise(roles))


@pytest.mark.parametrize("name", ASKING)
def test_the_same_messages_give_the_same_result_for_nothing(name: str) -> None:
    shortener = made(name, Model(house))
    first = shortener.shorten(chat(12))
    again = shortener.shorten(chat(12))

    assert first.input_tokens > 0
    assert again.input_tokens == again.output_tokens == 0
    assert again.messages == first.messages
    assert made(name, Model(house)).shorten(chat(12)).messages == first.messages


@pytest.mark.parametrize("name", ASKING)
def test_a_short_episode_is_sent_whole(name: str) -> None:
    shortened = made(name, Model(house)).shorten(chat(1))

    assert shortened.messages == chat(1)
    assert shortened.detail
    assert made(name, Model(house)).shorten([]).messages == []


def test_hiagent_keeps_the_steps_of_the_current_subgoal() -> None:
    sent = list(made("hiagent", Model(house)).shorten(chat(6)).messages)

    assert text_of(sent[1]).count("Subgoal done:") == 1
    assert sent[2:] == chat(6)[2 + 2 * 3 :]


def test_agentdiet_trims_old_steps_once_and_keeps_actions() -> None:
    model = Model(house)
    sent = list(made("agentdiet", model, delay=3).shorten(chat(6)).messages)

    assert [text_of(one) for one in sent[2::2]] == [text_of(one) for one in chat(6)[2::2]]
    assert [text_of(one) == "The key is in box 7." for one in sent[3::2]] == [True] * 3 + [
        False
    ] * 3
    assert len(model.questions) == 3


def test_agentdiet_ignores_an_answer_that_is_longer() -> None:
    model = Model(lambda _: "dust " * 400)

    assert made("agentdiet", model).shorten(chat(6)).messages == chat(6)


def test_acon_rewrites_its_summary_with_the_steps_since() -> None:
    model = Model(house)
    shortener = made("acon", model, history_tokens=400)
    for steps in range(20):
        sent = list(shortener.shorten(chat(steps)).messages)

    assert len(model.questions) > 2
    assert all("Summary so far:" in question for question in model.questions[1:])
    assert text_of(sent[1]).endswith("What happened so far:\nThe key is in box 7.")


def test_acon_compresses_a_long_newest_observation() -> None:
    long = [*chat(1)[:-1], {"role": "user", "content": "dust and " * 900}]

    sent = made("acon", Model(house)).shorten(long).messages

    assert text_of(sent[-1]) == "The key is in box 7."
