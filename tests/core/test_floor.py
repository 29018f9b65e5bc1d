from hypothesis import given
from hypothesis import strategies as st

from agora import Step
from agora.core import Call

# Private: why each step is protected, without a prompt around it.
from agora.core.protected import kept_by_tool, protected_steps


def make_step(number: int, **more: object) -> Step:
    return Step(number=number, action="go", observation="ok", tokens=50, **more)  # type: ignore[arg-type]


@given(st.integers(0, 12), st.integers(0, 6), st.sets(st.integers(-2, 14)))
def test_the_floor_holds_the_newest_steps_and_every_pin(
    count: int, k_recent: int, pins: set[int]
) -> None:
    steps = [make_step(n + 1) for n in range(count)]

    held = protected_steps(steps, k_recent=k_recent, pins=pins)

    newest = {n for n in range(count - k_recent + 1, count + 1) if n > 0}
    assert set(held) == newest | (pins & {s.number for s in steps}) | ({count} - {0})


def test_the_current_observation_is_held_even_without_a_window() -> None:
    assert protected_steps([make_step(1), make_step(2)], k_recent=0) == {2: "current observation"}


def test_each_step_of_the_floor_says_why_it_is_there() -> None:
    steps = [
        make_step(1),
        make_step(2),
        make_step(3, fixed="holds an odd block"),
        make_step(4, removable=False, action_tokens=45),
        make_step(5, removable=False, action_tokens=5),
        make_step(6),
        make_step(7),
    ]

    assert protected_steps(steps, k_recent=2, pins=[1], recalled=[2]) == {
        1: "pinned",
        2: "recalled",
        3: "holds an odd block",
        4: "small",
        6: "recent",
        7: "current observation",
    }


def calling(number: int, name: str, arguments: str = "{}") -> Step:
    return make_step(number, calls=(Call(name, arguments),)) if name else make_step(number)


def test_steps_of_a_tool_to_keep_belong_to_the_floor() -> None:
    steps = [calling(1, "read_policy"), calling(2, "look"), calling(3, "look")]

    kept = kept_by_tool(steps, ["read_policy"])

    assert kept == {1: "tool to keep"}
    assert protected_steps(steps, k_recent=0, kept=kept) == {
        1: "tool to keep",
        3: "current observation",
    }


def test_instruction_files_that_were_read_belong_to_the_floor() -> None:
    reads = Step(number=1, action="cat docs/AGENTS.md", observation="Be brief.", tokens=9)
    writes = Step(number=2, action="```\nrm CLAUDE.md\n```", observation="", tokens=9)

    assert kept_by_tool([reads, writes], ()) == {1: "instructions"}


def test_of_each_tool_that_keeps_a_plan_the_newest_step_belongs_to_the_floor() -> None:
    names = ("TodoWrite", "update_plan", "todo_write", "look")
    steps = [calling(n, name) for n, name in enumerate(names, start=1)]

    assert kept_by_tool(steps, ()) == {3: "plan", 2: "plan"}
    assert kept_by_tool(steps, (), plans=False) == {}
