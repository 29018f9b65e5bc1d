from itertools import pairwise

from hypothesis import given, settings
from lab.tests.label.making import cases, episode, trajectories

from agora.core.trajectory import Step, Trajectory, Utterance
from agora_lab.label.cases import Case, from_episode, from_trajectory, joined
from agora_lab.labels import data_hash

EXAMPLES = """Instructions for readers.
Example 1
Find the mug.
> look
A mug.
Example 2
Find the pen.
> open drawer
A pen."""


@settings(max_examples=50, deadline=None)
@given(cases())
def test_a_case_reads_back_as_it_was_written(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case


@settings(max_examples=50, deadline=None)
@given(trajectories())
def test_every_step_lies_where_the_case_says_and_nothing_else_is_lost(whole: Trajectory) -> None:
    case = from_trajectory(whole, name="a", source="log", task="t")

    if case is None:
        assert not whole.steps
        return
    for step, (start, end) in zip(whole.steps, case.steps, strict=True):
        texts = [message["content"] for message in case.messages[start:end]]
        assert texts == [step.action, step.observation]
    inside = {n for start, end in case.steps for n in range(start, end)}
    outside = [m["content"] for n, m in enumerate(case.messages) if n not in inside]
    assert outside[-len(whole.utterances) - 1 :] == [
        whole.task,
        *(said.text for said in whole.utterances),
    ]
    assert case.data == data_hash(whole)


@settings(max_examples=50, deadline=None)
@given(cases())
def test_no_two_neighbours_of_a_prompt_have_one_role(case: Case) -> None:
    for anchor in range(1, len(case.steps) + 1):
        for candidate in range(anchor):
            roles = [message["role"] for message in case.prompt(anchor, candidate)]
            assert all(a != b for a, b in pairwise(roles))


@settings(max_examples=50, deadline=None)
@given(cases())
def test_leaving_out_a_step_takes_its_messages_and_no_others(case: Case) -> None:
    for anchor in range(1, len(case.steps) + 1):
        for candidate in range(1, anchor):
            start, end = case.steps[candidate - 1]
            stop = case.steps[anchor - 1][0]
            rest = [m for n, m in enumerate(case.messages[:stop]) if not start <= n < end]
            assert case.prompt(anchor, candidate) == joined(rest)


def test_a_played_episode_is_shown_with_its_examples_as_messages() -> None:
    case = from_episode(episode(["dust", "a key"]), examples=EXAMPLES)

    assert case is not None
    assert [message["content"] for message in case.prompt(2)] == [
        "s",
        "Find the mug.",
        "look",
        "A mug.\n\nAnother task.\n\nFind the pen.",
        "open drawer",
        "A pen.\n\nAnother task.\n\no",
        "look",
        "dust",
    ]
    assert case.actions == ("look", "look")


def test_an_episode_without_moves_is_no_case() -> None:
    assert from_episode(episode([])) is None


def test_calls_become_text_and_reasoning_is_left_out() -> None:
    step = Step(
        number=1, action='find {"id": 7}', observation="found", tokens=1, thought="I must find 7."
    )
    said = Utterance(after=1, text="Thanks!", tokens=1, by_user=True)
    whole = Trajectory(
        task="Find it.",
        preamble="Be kind.\nFind it.",
        preamble_tokens=1,
        steps=(step, Step(number=2, action="stop", observation="", tokens=1)),
        utterances=(said,),
    )

    case = from_trajectory(whole, name="a", source="log", task="t", system="Tools: find")

    assert case is not None
    assert case.prompt(2) == [
        {"role": "system", "content": "Tools: find\n\nBe kind."},
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": 'find {"id": 7}'},
        {"role": "user", "content": "found\n\nThanks!"},
    ]
