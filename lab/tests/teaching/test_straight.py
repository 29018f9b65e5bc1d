"""Episodes without their detours."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from lab.tests.evaluation.counting import WORLD, KeepAll, make_player

from agora_lab.episodes.episode import Move
from agora_lab.teaching.making import Teacher
from agora_lab.teaching.straight import straight, takes_the_first, without_detours

PAGES = st.lists(st.sampled_from("abcd"), max_size=12)


def moves_to(*pages: str) -> tuple[Move, ...]:
    return tuple(
        Move(
            sent=[],
            answer=f"{number} {page}",
            action=f"to {page}",
            observation=f"page {page}",
            reward=0.0,
            valid=True,
            tokens_whole=0,
            tokens_sent=0,
        )
        for number, page in enumerate(pages)
    )


def walked(*pages: str) -> str:
    return "".join(one.answer[-1] for one in without_detours("find\n\npage s", moves_to(*pages)))


def test_pages_that_were_left_again_are_left_out() -> None:
    assert walked(*"rarbrc") == "rc"
    assert walked(*"rasqb") == "qb"


def test_moves_that_stay_on_their_page_are_kept() -> None:
    assert walked(*"rabarabbb") == "rabbb"
    assert walked(*"rdddx") == "rdddx"


@given(pages=PAGES)
def test_the_way_ends_where_it_ended_and_visits_no_page_twice(pages: list[str]) -> None:
    found = walked(*pages)

    assert found[-1:] == "".join(pages)[-1:]
    visits = [page for at, page in enumerate(found) if at == 0 or found[at - 1] != page]
    assert len(visits) == len(set(visits))


def test_a_way_that_does_not_lead_to_the_same_is_no_lesson() -> None:
    episode = make_player().play("3")[0]
    environment = WORLD.make()
    elsewhere = replace(episode.moves[1], observation="another page")
    moved = replace(episode, moves=(episode.moves[0], elsewhere, *episode.moves[2:]))

    assert straight(episode, environment) == episode.moves
    assert straight(moved, environment) == ()


def test_a_straight_lesson_is_what_was_done_and_not_what_the_reader_says() -> None:
    player = replace(make_player(), method=KeepAll())
    episode = player.play("3")[0]
    teacher = Teacher(
        world=WORLD,
        reader=player.backbone,
        split="train",
        by_reader=True,
        straight_in=WORLD.make(),
    )

    (lesson,) = teacher.lessons(episode)

    assert lesson.kind == "straight"
    assert [one.text for one in lesson.targets] == [move.answer for move in episode.moves]
    assert [lesson.messages[one.at].content for one in lesson.targets] == [
        one.text for one in lesson.targets
    ]
    assert lesson.messages[-1].role == "assistant"


def test_only_ways_that_take_the_first_of_a_list_are_kept_if_asked() -> None:
    def way(*told: tuple[str, str]) -> tuple[Move, ...]:
        blank = moves_to("x")[0]
        return tuple(replace(blank, action=action, observation=page) for action, page in told)

    page = "Next > [SEP] B000000001 [SEP] A CUP [SEP] $3 [SEP] B000000002 [SEP] A PAN [SEP] $4"
    first = way(("search[cup]", page), ("click[B000000001]", "cup"), ("click[Buy Now]", ""))
    second = way(("search[cup]", page), ("click[B000000002]", "pan"), ("click[Buy Now]", ""))

    assert takes_the_first(first)
    assert not takes_the_first(second)
