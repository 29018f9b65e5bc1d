from agora.core.reading.actions import used_by
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
