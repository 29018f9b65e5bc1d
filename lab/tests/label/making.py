"""Trajectories and cases for the tests of labelling."""

from collections.abc import Sequence

from hypothesis import strategies as st

from agora.core.trajectory import Call, Step, Trajectory, Utterance
from agora_lab.agents import Answer, Messages
from agora_lab.episodes import Cell, Episode, Move
from agora_lab.label.cases import Case, from_trajectory

# Few texts, so that steps repeat and two prompts can come out the same.
WORDS = st.sampled_from(["", "look", "open door", "a key\nand a lamp", "日本", "café \ud800", "go"])


STEPS = st.tuples(
    WORDS,
    WORDS,
    st.integers(1, 50),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "", "", "opaque"]),
)
SAID = st.tuples(st.integers(0, 9), WORDS, st.booleans())


def trajectory(
    steps: list[tuple[str, str, int, bool, bool, str]], said: list[tuple[int, str, bool]], task: str
) -> Trajectory:
    return Trajectory(
        task=task,
        preamble=f"Act.\n{task}",
        preamble_tokens=3,
        steps=tuple(
            Step(
                number=number,
                action=action,
                observation=observation,
                tokens=tokens,
                calls=(Call("look", "{}"),) if calls else (),
                removable=removable,
                fixed=fixed,
            )
            for number, (action, observation, tokens, calls, removable, fixed) in enumerate(
                steps, 1
            )
        ),
        utterances=tuple(
            Utterance(after=min(after, len(steps)), text=text, tokens=1, by_user=by_user)
            for after, text, by_user in sorted(said)
        ),
    )


def trajectories(*, least: int = 0) -> st.SearchStrategy[Trajectory]:
    return st.builds(
        trajectory,
        st.lists(STEPS, min_size=least, max_size=9),
        st.lists(SAID, max_size=3),
        WORDS,
    )


def case_of(whole: Trajectory, *, name: str = "a", world: str = "") -> Case | None:
    return from_trajectory(whole, name=name, source="log", task="t", system="Tools.", world=world)


def cases() -> st.SearchStrategy[Case]:
    return trajectories(least=1).map(_case)


def _case(whole: Trajectory) -> Case:
    made = case_of(whole)
    assert made is not None
    return made


def plain_case(
    actions: Sequence[str], observations: Sequence[str], *, name: str = "a", task: str = "find it"
) -> Case:
    steps = tuple(
        Step(number=number, action=action, observation=observation, tokens=5)
        for number, (action, observation) in enumerate(
            zip(actions, observations, strict=True), start=1
        )
    )
    whole = Trajectory(task=task, preamble=f"Act.\n{task}", preamble_tokens=3, steps=steps)
    made = case_of(whole, name=name)
    assert made is not None
    return made


def episode(observations: Sequence[str], *, task: str = "t", environment: str = "x") -> Episode:
    moves = tuple(
        Move(
            sent=(),
            answer="look",
            action="look",
            observation=observation,
            reward=0.0,
            valid=True,
            tokens_whole=1,
            tokens_sent=1,
        )
        for observation in observations
    )
    cell = Cell(environment=environment, backbone="reader", method="none")
    return Episode(cell=cell, task=task, system="s", opening="o", moves=moves, ended="steps")


class Echo:
    """A scripted agent that answers with the last message."""

    def answer(self, messages: Messages) -> Answer:
        return Answer(text=str(messages[-1]["content"]))

    def close(self) -> None:
        """Nothing is open."""


def echo(environment: str) -> Echo:
    """Make the agent for any environment."""
    assert environment == ""
    return Echo()
