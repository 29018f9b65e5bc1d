from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agora.core.reading.mentions import spoken_of
from agora.core.reading.things import phrases
from agora.core.trajectory import Call, Step

KITCHEN = """You move to the kitchen.
This room is called the kitchen. In it, you see:
\ta counter. On the counter is: a bowl (containing a red apple, a banana), a drawer.
\ta cupboard. The cupboard door is open. In the cupboard is: a metal pot, a tin cup.
\ta lighter
You also see:
\tA door to the hallway (that is open)"""


def step(number: int, command: str, observation: str = "done") -> Step:
    call = Call("act", f'{{"command": "{command}"}}')
    return Step(number=number, action="", observation=observation, tokens=99, calls=(call,))


def told(steps: Sequence[Step], said: str = "", number: int = 1) -> list[str]:
    return [fact.text for fact in spoken_of(steps, phrases(said)).get(number, ())]


def test_what_the_user_speaks_of_is_told_behind_what_it_is_in() -> None:
    asked = "Bring me the tin cup, a banana, and the lighter."

    assert told([step(1, "go to kitchen", KITCHEN)], asked) == [
        "bowl|banana",
        'cupboard|"tin cup"',
        "lighter",
    ]


@given(
    st.lists(st.sampled_from(KITCHEN.replace("\n", " \n ").split(" ")), max_size=60).map(" ".join),
    st.text(max_size=60),
)
def test_a_thing_is_told_in_words_of_the_text_and_only_if_it_was_spoken_of(
    text: str, said: str
) -> None:
    for spoken in (said, "the metal pot, the cupboard and a drawer"):
        for fact in spoken_of([step(1, "look", text)], phrases(spoken)).get(1, ()):
            words = fact.text.replace('"', "").split("|")
            assert all(word in text for word in words)
            assert words[-1].lower() in spoken.lower()
