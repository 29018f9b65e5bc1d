from hypothesis import given
from hypothesis import strategies as st

from agora.core.floor import floor
from agora.core.trajectory import Step


def make_step(number: int, **more: object) -> Step:
    return Step(number=number, action="go", observation="ok", tokens=50, **more)  # type: ignore[arg-type]


@given(st.integers(0, 12), st.integers(0, 6), st.sets(st.integers(-2, 14)))
def test_the_floor_holds_the_newest_steps_and_every_pin(
    count: int, k_recent: int, pins: set[int]
) -> None:
    steps = [make_step(n + 1) for n in range(count)]

    held = floor(steps, k_recent=k_recent, pins=pins)

    newest = {n for n in range(count - k_recent + 1, count + 1) if n > 0}
    assert set(held) == newest | (pins & {s.number for s in steps}) | ({count} - {0})


def test_the_current_observation_is_held_even_without_a_window() -> None:
    assert floor([make_step(1), make_step(2)], k_recent=0) == {2: "current observation"}


def test_each_step_of_the_floor_says_why_it_is_there() -> None:
    steps = [
        make_step(1),
        make_step(2),
        make_step(3, fixed="holds an odd block"),
        make_step(4, form="mask", residue_tokens=45),
        make_step(5, form="mask", residue_tokens=5),
        make_step(6),
        make_step(7),
    ]

    assert floor(steps, k_recent=2, pins=[1], recalled=[2]) == {
        1: "pinned",
        2: "recalled",
        3: "holds an odd block",
        4: "small",
        6: "recent",
        7: "current observation",
    }
