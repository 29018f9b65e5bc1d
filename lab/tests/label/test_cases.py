from itertools import pairwise

from hypothesis import given, settings
from lab.tests.label.making import cases, episode

from agora import parse
from agora_lab.label.cases import Case, from_episode, from_trajectory, joined

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
@given(cases())
def test_every_step_lies_where_the_case_says(case: Case) -> None:
    for (action, observation), (start, end) in zip(case.steps, case.spans, strict=True):
        texts = [message["content"] for message in case.messages[start:end]]
        assert texts == [action, observation]


@settings(max_examples=50, deadline=None)
@given(cases())
def test_leaving_out_a_step_takes_its_messages_and_no_others(case: Case) -> None:
    for anchor in range(1, len(case.spans) + 1):
        stop = case.spans[anchor - 1][0]
        for candidate in range(1, anchor):
            start, end = case.spans[candidate - 1]
            rest = [m for n, m in enumerate(case.messages[:stop]) if not start <= n < end]
            prompt = case.prompt(anchor, candidate)
            assert prompt == joined(rest)
            assert all(a["role"] != b["role"] for a, b in pairwise(prompt))


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
    assert case.steps == (("look", "dust"), ("look", "a key"))
    assert from_episode(episode([])) is None


def test_calls_become_text_and_reasoning_is_left_out() -> None:
    function = {"name": "find", "arguments": '{"id": 7}'}
    call = {"id": "c1", "type": "function", "function": function}
    chat = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "reasoning_content": "I must find 7.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "user", "content": "Thanks!"},
        {"role": "assistant", "tool_calls": [{**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "again"},
    ]

    case = from_trajectory(parse(chat), name="a", source="log", task="t", system="Tools: find")

    assert case is not None
    assert case.prompt(2) == [
        {"role": "system", "content": "Tools: find\n\nBe kind."},
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": 'find {"id": 7}'},
        {"role": "user", "content": "found\n\nThanks!"},
    ]
