"""Cases for the tests of labelling."""

from collections.abc import Sequence

from hypothesis import strategies as st

from agora import parse
from agora_lab.agents import Answer, Messages
from agora_lab.episodes import Cell, Episode, Move
from agora_lab.label.cases import Case, from_trajectory

# Few texts, so that steps repeat and two prompts can come out the same.
WORDS = st.sampled_from(["look", "open door", "a key\nand a lamp", "日本", "café", "go"])


def cases() -> st.SearchStrategy[Case]:
    """Return conversations in which the user speaks between steps now and then."""
    step = st.tuples(WORDS, WORDS, st.sampled_from(["", "", "Hurry!"]))
    return st.lists(step, min_size=1, max_size=9).map(_case)


def _case(steps: list[tuple[str, str, str]]) -> Case:
    chat: list[dict[str, object]] = [
        {"role": "system", "content": "Act."},
        {"role": "user", "content": "Find it."},
    ]
    for number, (arguments, result, words) in enumerate(steps):
        call = {"id": f"c{number}", "type": "function"}
        function = {"name": "do", "arguments": arguments}
        chat.append({"role": "assistant", "tool_calls": [{**call, "function": function}]})
        chat.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
        if words:
            chat.append({"role": "user", "content": words})
    case = from_trajectory(parse(chat), name="a", source="log", task="t", system="Tools.")
    assert case is not None
    return case


def plain_case(actions: Sequence[str], observations: Sequence[str], *, task: str = "t") -> Case:
    """Return a conversation of an agent that acts by text."""
    chat = [{"role": "system", "content": "Act."}, {"role": "user", "content": "find it"}]
    for action, observation in zip(actions, observations, strict=True):
        chat.append({"role": "assistant", "content": action})
        chat.append({"role": "user", "content": observation})
    whole = parse(chat, format="openai", observations="user")
    case = from_trajectory(whole, name="a", source="log", task=task)
    assert case is not None
    return case


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
    cell = Cell(environment=environment, backbone="scripted", method="none")
    return Episode(cell=cell, task=task, system="s", opening="o", moves=moves, ended="steps")


class Echo:
    """A scripted agent that answers with the last message."""

    def answer(self, messages: Messages) -> Answer:
        return Answer(text=str(messages[-1]["content"]))


def echo(environment: str) -> Echo:
    """Make the agent for any environment."""
    assert environment == ""
    return Echo()
