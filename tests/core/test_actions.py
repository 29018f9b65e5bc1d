import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.reading.actions import command_at, done_by, used_by
from agora.core.reading.names import names_in
from agora.core.trajectory import Call, Step


def step(action: str, *calls: Call) -> Step:
    return Step(number=1, action=action, observation="", tokens=1, calls=calls)


def test_a_long_text_is_searched_at_both_ends() -> None:
    text = "src/first.py" + " word" * 100 + " src/last.py"

    assert names_in(text, characters=20) == ("src/first.py", "src/last.py")
    assert names_in("src/first.py") == ("src/first.py",)


def test_an_action_is_made_of_its_arguments_or_else_of_its_text() -> None:
    assert list(used_by(step("read src/a.py", Call("read", '{"path": "src/b.py"}')))) == [
        "src/b.py"
    ]
    assert list(used_by(step("read src/a.py"))) == ["src/a.py"]


def test_two_actions_are_the_same_whatever_their_white_space() -> None:
    assert done_by(step("go  north")) == done_by(step("go north"))
    assert done_by(step("go", Call("go", "{}"))) != done_by(step("go", Call("go", "1")))


@given(
    st.text().filter(lambda said: "`" not in said and "<" not in said and "Action" not in said),
    st.text().filter(lambda said: "`" not in said and "<" not in said and "Action" not in said),
    st.sampled_from(
        ["```bash\n{}\n```", "<code>{}</code>", "Action: {}", "Action 3:\n```\n{}\n```"]
    ),
)
def test_from_its_only_mark_on_all_is_the_command(thought: str, said: str, form: str) -> None:
    command = form.format(said)

    whole = f"{thought}\n{command}"
    assert whole[command_at(whole) :] == command
    assert command_at(command) == 0


@pytest.mark.parametrize(
    "said",
    [
        "",
        "I look around.",
        "Either\n```\nls\n```\nor\n```\ncat a\n```",
        "So:\n```bash\nls",
        "On.\nAction: look\nAction: go",
        "On.\n<code>a</code>\nAction: go",
    ],
)
def test_what_could_be_read_in_two_ways_has_no_command(said: str) -> None:
    assert command_at(said) == 0
