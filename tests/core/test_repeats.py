"""Repeats on made-up conversations whose answer is known."""

import random

from agora import Step
from agora.core import Call

# Private: any calls of any tools: the public face is a count.
from agora.core.repeats import NO_REPEATS, Habit, Repeats, asked_by, count_repeats

STEPS, EDIT_EVERY, RUNS = 300, 40, 20


def played(seed: int, habit: float, forgetting: float) -> Repeats:
    """Return the counts of an agent that repeats any old call by habit, and shortened ones more.

    Everything but the newest ten steps is shortened at each edit.
    """
    chance = random.Random(seed)
    asked: list[tuple[int, ...]] = []
    known, counts = Habit(), NO_REPEATS
    shortened: set[int] = set()
    for number in range(1, STEPS + 1):
        at = chance.randrange(number)
        old = at + 1 in shortened
        repeats = at < len(asked) and chance.random() < habit + forgetting * old
        asked.append(asked[at] if repeats else (number + 10**6,))
        known, new = count_repeats(known, asked, len(asked) - 1, shortened)
        counts = counts.plus(new)
        if number % EDIT_EVERY == 0:
            shortened = set(range(1, number - 9))
    return counts


def mean(habit: float, forgetting: float) -> tuple[float, float]:
    runs = [played(seed, habit, forgetting) for seed in range(RUNS)]
    return sum(one.again for one in runs) / RUNS, sum(one.extra for one in runs) / RUNS


def test_who_forgets_nothing_makes_no_extra_calls() -> None:
    again, extra = mean(0.2, 0.0)

    assert again > 20
    assert abs(extra) < 0.2 * again


def test_what_is_asked_for_beyond_the_habit_is_extra() -> None:
    usual, _ = mean(0.2, 0.0)
    again, extra = mean(0.2, 0.3)

    assert abs(extra - (again - usual)) < 0.2 * again


def test_an_agent_without_habits_repeats_only_what_it_forgot() -> None:
    again, extra = mean(0.0, 0.3)

    assert 0.85 * again < extra <= again
    assert again > 20


def test_calls_are_the_same_by_name_and_arguments() -> None:
    def step(*calls: Call, action: str = "") -> Step:
        return Step(number=1, action=action, observation="", tokens=1, calls=calls)

    read = Call("read", '{"path": "a"}')
    assert asked_by(step(read, Call("read", '{"path": "b"}')))[0] == asked_by(step(read))[0]
    assert asked_by(step(read)) != asked_by(step(Call("write", read.arguments)))
    said = asked_by(step(action="Again.\n```bash\nls\n```"))
    assert said == asked_by(step(action="I look.\n```bash\nls\n```"))
