from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agora.core.reading.mentions import USED, spoken_of
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


def test_of_what_an_action_names_it_is_told_where_it_was() -> None:
    taken = [step(1, "go to kitchen", KITCHEN), step(2, "wait"), step(3, "pick up metal pot")]

    assert told(taken) == ['cupboard|"metal pot"']
    assert {fact.weight for fact in spoken_of(taken, frozenset())[1]} == {USED}


def test_that_a_used_thing_was_there_at_all_is_said_by_its_use() -> None:
    assert told([step(1, "go to kitchen", KITCHEN), step(2, "pick up lighter")]) == []


def test_the_last_text_that_showed_a_thing_before_its_use_tells_where_it_was() -> None:
    steps = [
        step(1, "look", "On the table is: a metal pot."),
        step(2, "go to kitchen", KITCHEN),
        step(3, "pick up metal pot"),
        step(4, "look", "On the bed is: a metal pot."),
    ]

    assert [number for number in (1, 2, 4) if told(steps, number=number)] == [2]


def test_what_most_texts_show_tells_nothing() -> None:
    rooms = [step(number, f"go to {number}", f"{number}, a hallway") for number in range(1, 9)]

    assert told(rooms, "Meet me in the hallway.") == []
    assert told(rooms[:3], "Meet me in the hallway.") == ["hallway"]


def test_data_and_code_have_names_of_their_own() -> None:
    asked = "Where is the tin cup?"

    assert told([step(1, "look", '{"place": "in the cupboard: a tin cup"}')], asked) == []
    assert told([step(1, "look", "import cups\nIn the cupboard: a tin cup")], asked) == []


def test_what_stands_in_square_brackets_parts_a_page() -> None:
    page = "Size: [SEP] queen [SEP] navy [SEP] Price: $40.0"

    assert told([step(1, "open", page)], "a navy one, queen size") == ["queen", "navy"]


def test_a_thing_with_a_number_is_a_name_and_told_as_names_are() -> None:
    opened = [step(1, "open drawer 6", "You open the drawer 6. In it: a mug, a pen 1.")]

    assert told(opened, "There is a drawer 6. Put a mug and a pen 1 on it.") == ["mug"]


def test_words_that_build_sentences_or_are_too_common_name_nothing() -> None:
    assert phrases("Please do it again, and then open the file.") == set()
    assert "open cupboard" in phrases("open cupboard")


def test_of_many_places_of_one_thing_a_few_are_told() -> None:
    text = "\n".join(f"On {letter * 5}: a cup" for letter in "bcdefg")

    assert len(told([step(1, "look", text)], "a cup")) == 4


def test_a_very_long_list_is_read_up_to_a_point() -> None:
    names = [f"thing {a}{b}" for a in "bcdfghjklmnpqrstv" for b in "bcdfghjklmnpqrstv"]
    listed = [step(1, "look", "\n".join(names))]

    assert told(listed, names[0]) == [f'"{names[0]}"']
    assert told(listed, names[-1]) == []


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
