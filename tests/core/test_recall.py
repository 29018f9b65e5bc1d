import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Step
from agora.core import Call

# Private: any arguments of the tool: what is read as a number of a step.
from agora.core.recall import TOOL_NAME, recalled


def make_step(name: str, arguments: str) -> Step:
    calls = (Call(name, arguments),)
    return Step(number=1, action="", observation="", tokens=1, calls=calls)


def test_a_call_of_the_tool_names_the_step_that_was_recalled() -> None:
    assert recalled([make_step(TOOL_NAME, '{"step": 3}')]) == {3}


@pytest.mark.parametrize("name", ["read", "recall", f"{TOOL_NAME}s", TOOL_NAME.upper()])
def test_another_tool_with_the_same_arguments_recalls_nothing(name: str) -> None:
    assert recalled([make_step(name, '{"step": 3}')]) == frozenset()


@pytest.mark.parametrize("arguments", ["", "3", "[3]", '{"step": "3"}', '{"step": true}', "{}"])
def test_arguments_that_name_no_step_recall_nothing(arguments: str) -> None:
    assert recalled([make_step(TOOL_NAME, arguments)]) == frozenset()


def test_deeply_nested_arguments_recall_nothing() -> None:
    assert recalled([make_step(TOOL_NAME, "[" * 100_000)]) == frozenset()


@given(st.text(), st.text())
def test_no_other_tool_and_no_text_recalls_anything(name: str, arguments: str) -> None:
    step = make_step(name, arguments)
    said = Step(number=2, action=f'{TOOL_NAME} {{"step": 1}}', observation=TOOL_NAME, tokens=1)

    assert name == TOOL_NAME or recalled([step, said]) == frozenset()
