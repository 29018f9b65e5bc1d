import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agora.core.actions import Tools
from agora.core.renditions.short_action import (
    short_action,
    verbatim_action,
)
from agora.core.trajectory import Call, Step


def called(name: str, arguments: object = None, *, observation: str = "") -> Step:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return Step(number=1, action="", observation=observation, tokens=9, calls=(Call(name, text),))


def spoken(action: str, observation: str = "") -> Step:
    return Step(number=1, action=action, observation=observation, tokens=9)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"order_id": "#W4073673"}, "get order_id=#W4073673"),
        ({"name": "Mei Brown", "zip": 76171}, 'get name="Mei Brown" zip=76171'),
        ({"expression": "166 + 178"}, 'get expression="166 + 178"'),
        ({"ids": ["A-1", "A-2"], "all": True}, "get ids=[A-1,A-2] all=true"),
        ({"command": "cd /app && ls -l"}, "get … ls -l"),
        ({"command": ["bash", "-lc", "ls"]}, "get bash -lc ls"),
        ({"action": "click[features]"}, "get click[features]"),
        ({"action": "left_click", "ref": "r-12"}, "get left_click ref=r-12"),
        ({"text": "Please do tell them about order W4073673 at once"}, 'get text="…W4073673…"'),
        ({"text": "please do tell them to wait"}, "get text=…"),
        (
            {"text": "It is the Great Art Fair they see"},
            'get text="It is the Great Art Fair they see"',
        ),
        ({"text": "It is the Great Art Fair " * 3}, "get text=…"),
        (
            {"not a key": "x-1", "flights": [{"id": 1}], "none": None},
            "get …=x-1 flights=… none=null",
        ),
        ({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, "get a=1 b=2 c=3 d=4 …"),
        ({"escaped": "caf\u00e9-1 b"}, 'get escaped="caf\u00e9-1 b"'),
        ("*** Update File: src/app.py", "get *** Update File: src/app.py"),
        ({"n": -5}, "get n=-5"),
        ("[]", "get"),
        ('"just text"', "get just text"),
    ],
)
def test_a_call_is_told_by_its_tool_and_the_names_it_was_given(
    arguments: object, line: str
) -> None:
    assert short_action(called("get", arguments)).text == line


def test_a_call_that_is_told_in_full_says_so() -> None:
    assert short_action(called("get", {"id": "A-1", "deep": False})).whole
    assert not short_action(called("get", {"id": "A-1", "note": "do tell them to wait " * 3})).whole
    assert not short_action(called("get", {"ids": ["A-1", "A-2", "A-3", "A-4"]})).whole


def test_of_many_calls_each_that_changes_something_is_told() -> None:
    calls = tuple(Call("cancel", f'{{"id": "A-{n}"}}') for n in range(10))
    step = Step(number=1, action="", observation="", tokens=9, calls=calls)

    assert short_action(step).calls == tuple(f"cancel id=A-{n}" for n in range(10))
    assert short_action(step).whole


def test_of_many_calls_each_is_told_that_a_list_says_changes_something() -> None:
    calls = tuple(Call("get_slot", f'{{"id": "A-{n}"}}') for n in range(10))
    step = Step(number=1, action="", observation="", tokens=9, calls=calls)

    assert all(short_action(step, Tools(changing=("get_slot",))).calls)
    assert not all(short_action(step).calls)


@pytest.mark.parametrize(
    ("action", "line"),
    [
        ("I look.\n\n```bash\ncd /app && grep -rn key .\n```\n", "… grep -rn key ."),
        ("<code>\nprint(7)\n</code>", "print(7)"),
        ("``` is a fence", "``` is a fence"),
        ("a <code> b", "a <code> b"),
        ("think: it is dark.\ngo to shelf 2", "go to shelf 2"),
        ("# list them\nls -l", "ls -l"),
        ("# only a comment", "# only a comment"),
        ("cat <<'EOF' > run.py\nimport os\nEOF", "cat <<'EOF' > run.py …"),
        ("cd /app &&", "cd /app &&"),
        ("f(x) -> y", "f(x) -> y"),
        ("look\u200b\taround", "look around"),
        ("look\n\u200b\naround\n\u200b", "look; around"),
    ],
)
def test_an_action_by_text_is_told_by_its_command(action: str, line: str) -> None:
    assert short_action(spoken(action)).text == line


@given(
    st.text(max_size=300), st.dictionaries(st.text(max_size=9), st.text(max_size=60), max_size=3)
)
def test_every_word_of_a_deed_stands_in_the_action(said: str, arguments: dict[str, str]) -> None:
    for text in short_action(spoken(said)).text.replace("…", " ").replace("; ", " ").split():
        assert text in said
    # As the wire may carry it, escaped or not.
    source = json.dumps(arguments) + json.dumps(arguments, ensure_ascii=False)
    source += "\n".join([*arguments, *arguments.values()])
    line = short_action(called("tool", arguments)).text.removeprefix("tool")
    for word in re.sub("[=\"'…]", " ", line).split():
        assert word in source


@given(st.text(max_size=300).filter(lambda text: "```" not in text and text.strip()))
@example('"ls\\nls"')
def test_a_command_that_is_told_word_for_word_can_be_read_back(command: str) -> None:
    told = verbatim_action(spoken(f"THOUGHT: so.\n```bash\n{command}\n```"))

    assert told is not None
    assert told.text.isprintable()
    read = json.loads(told.text) if told.text.startswith('"') else told.text
    assert read == command.strip()


@pytest.mark.parametrize(
    "action",
    [
        "```bash\na\n```\nor\n```bash\nb\n```",
        "```python\na\n```\n```bash\nb\n```\nThat is all.",
        "```bash\na\n```\n```",
        "<code>a</code> or <code>b</code>",
        "```bash\na\n```\n<code>b</code>",
        "ls " + "x" * 9_000,
        "```bash\nls " + "x" * 3_000 + "\n```",
        " ",
    ],
)
def test_where_it_is_not_sure_which_the_command_is_none_is_told_word_for_word(action: str) -> None:
    assert verbatim_action(spoken(action)) is None
