import pytest

from agora.core.past import Past
from agora.core.trajectory import Call, Step, Trajectory
from agora_lab.methods.weighed import Weighed, edited, viewed


def ran(number: int, command: str) -> Step:
    said = f"THOUGHT: on.\n\n```bash\n{command}\n```"
    return Step(number=number, action=said, observation="x = 1\n" * 40, tokens=200)


def past(*steps: Step) -> Past:
    trajectory = Trajectory(task="go", preamble="go", preamble_tokens=2, steps=steps)
    return Past.of(trajectory, len(steps), newest=True)


def test_a_view_is_stale_once_its_file_was_edited() -> None:
    seen = past(ran(1, "cat src/a.py"), ran(2, "cat b.py"), ran(3, "sed -i s/a/b/ a.py"))

    plain = Weighed().worth(seen, ())
    weighed = Weighed(stale=0.25, fresh=3.0).worth(seen, ())

    ratios = [
        one.observation / other.observation for one, other in zip(weighed, plain, strict=True)
    ]
    assert ratios == pytest.approx([0.25, 3.0, 1.0])
    assert [one.action for one in weighed] == [one.action for one in plain]


def test_a_view_of_what_was_edited_before_is_fresh() -> None:
    seen = past(ran(1, "echo 1 > a.py"), ran(2, "cat a.py"), ran(3, "ls"))

    assert viewed(seen.steps[1]) == {"a.py"}
    assert Weighed(stale=0.0).worth(seen, ())[1].observation > 0


@pytest.mark.parametrize(
    ("call", "files"),
    [
        (Call("edit_file", '{"path": "src/a.py", "text": "x"}'), {"a.py"}),
        (Call("edit_file", "no json"), set()),
        (Call("read_file", '{"path": "src/a.py"}'), set()),
    ],
)
def test_calls_edit_the_files_that_their_arguments_name(call: Call, files: set[str]) -> None:
    step = Step(number=1, action="", observation="", tokens=9, calls=(call,))

    assert edited(step) == files
