from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agora_lab.agents.base import Answer, Messages
from agora_lab.agents.examples import WithExamples, example_turns, with_examples

EXAMPLES = """\
Two episodes, with each action after ">":

Example 1
Find the mug.

You see a desk 1.
> go to desk 1
On the desk 1:
\ta mug 1
> take mug 1

Example 2
Open the door.
Action: open door 1
It is open."""

EPISODE: Messages = [
    {"role": "system", "content": "Act."},
    {"role": "user", "content": "Find the pen.\n\nA room."},
    {"role": "assistant", "content": "look"},
    {"role": "user", "content": "A pen."},
]


def test_examples_become_turns_between_the_instructions_and_the_task() -> None:
    told = with_examples(EPISODE, EXAMPLES)

    assert [(message["role"], message["content"]) for message in told] == [
        ("system", "Act."),
        ("user", "Find the mug.\n\nYou see a desk 1."),
        ("assistant", "go to desk 1"),
        ("user", "On the desk 1:\n\ta mug 1"),
        ("assistant", "take mug 1"),
        ("user", "Another task.\n\nOpen the door."),
        ("assistant", "open door 1"),
        ("user", "It is open.\n\nAnother task.\n\nFind the pen.\n\nA room."),
        ("assistant", "look"),
        ("user", "A pen."),
    ]


def test_an_example_that_ends_with_an_action_is_answered_by_the_task() -> None:
    told = with_examples(EPISODE, "An example of a visit:\n\nBuy it.\nAction: click[Buy Now]")

    assert [message["content"] for message in told][1:4] == [
        "Buy it.",
        "click[Buy Now]",
        "Another task.\n\nFind the pen.\n\nA room.",
    ]


def test_without_examples_or_a_task_nothing_is_changed() -> None:
    assert with_examples(EPISODE, "") == EPISODE
    assert with_examples(EPISODE, "no example here") == EPISODE
    assert with_examples(EPISODE[:1], EXAMPLES) == EPISODE[:1]
    assert with_examples([], EXAMPLES) == []


LINES = st.sampled_from(
    ["Example 1", "An example", "> look", "Action: look", "A desk.", "", "\t- a mug", "Two:"]
)


@given(st.lists(LINES).map("\n".join))
def test_turns_go_on_after_the_task_as_before_and_only_the_first_message_differs(
    examples: str,
) -> None:
    told = with_examples(EPISODE, examples)

    assert told[0] == EPISODE[0]
    assert told[-2:] == EPISODE[-2:]
    assert str(told[-3]["content"]).endswith(str(EPISODE[1]["content"]))
    users = [message["role"] for message in told]
    assert ("user", "user") not in set(pairwise(users))


@given(st.text())
def test_any_text_can_be_read_for_examples(text: str) -> None:
    assert all(turn["role"] in ("user", "assistant") for turn in example_turns(text))


class LastWord:
    """A backbone that works: it says how many messages it was shown."""

    def answer(self, messages: Messages) -> Answer:
        return Answer(text=str(len(messages)))


def test_a_backbone_with_examples_is_shown_them_each_time() -> None:
    backbone = WithExamples(LastWord(), EXAMPLES)

    assert backbone.answer(EPISODE).text == "10"
    assert backbone.answer(EPISODE[:2]).text == "8"
