"""Calls of tools, read from what an agent says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_lab.envs.tool_calls import CallError, OneTool, canonical

TOOL = OneTool("act", "command")


@given(st.text(), st.text(alphabet="abc .\n"))
def test_a_call_is_found_among_talk_and_gives_back_its_argument(command: str, talk: str) -> None:
    call = f"act {json.dumps({'command': command})}"

    assert TOOL.extract(f"{talk}\n `{call}` \n{talk}") == call
    assert TOOL.given(call) == command


@given(st.text().filter(lambda text: "act {" not in text))
def test_what_calls_nothing_is_said(text: str) -> None:
    assert TOOL.extract(text) == text.strip()
    assert TOOL.given(text) is None


@pytest.mark.parametrize("arguments", ["{}", "{look}", '{"action": "look"}', '{"command": "a"} {}'])
def test_a_call_without_its_argument_is_told_its_form(arguments: str) -> None:
    with pytest.raises(CallError, match=r'^the call is act \{"command": "COMMAND"\}$'):
        TOOL.given(f"act {arguments}")


@given(st.text())
def test_the_one_form_of_an_action_is_its_own(action: str) -> None:
    assert canonical(canonical(action)) == canonical(action)
