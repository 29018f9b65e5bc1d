"""What a student may say follows from its prompt alone."""

from hypothesis import given
from hypothesis import strategies as st

from agora_lab.backbones import readers
from agora_lab.environments import world
from agora_lab.methods import MethodSettings, method
from agora_lab.teaching.wording import Beginnings, Wording, wording

WORDS = st.text(alphabet="abé 1", min_size=1, max_size=4).map(str.encode)
CHOICES = st.lists(WORDS, min_size=1, max_size=4).map(tuple)
TEMPLATES = st.lists(st.lists(CHOICES, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3)


def told(*lines: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": line} for line in lines]


def said_by_turns(*turns: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": one} for n, one in enumerate(turns)]


def of(name: str, *lines: str) -> Wording:
    found = wording(name, told(*lines))
    assert found is not None
    return found


@given(templates=TEMPLATES, data=st.data())
def test_every_beginning_of_an_action_begins_one_and_only_actions_are_allowed(
    templates: list[tuple[tuple[bytes, ...], ...]], data: st.DataObject
) -> None:
    found = Wording(tuple(templates))
    template = data.draw(st.sampled_from(templates))
    action = b"".join(data.draw(st.sampled_from(choices)) for choices in template)
    cut = data.draw(st.integers(0, len(action)))

    assert found.allows(action)
    assert found.begins(action[:cut])
    assert not found.begins(action + b"#")
    whole = found.completed(action[:cut])
    assert whole.startswith(action[:cut])
    assert found.allows(whole)


@given(
    templates=st.lists(
        st.lists(CHOICES | st.none(), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3
    ),
    spent=st.frozensets(WORDS | st.just(b"a[b]"), max_size=3),
    text=WORDS | st.just(b""),
    more=st.lists(st.text(alphabet="abé 1[]", min_size=1, max_size=4).map(str.encode), max_size=9),
)
def test_asking_about_many_continuations_answers_as_asking_about_each(
    templates: list[tuple[tuple[bytes, ...] | None, ...]],
    spent: frozenset[bytes],
    text: bytes,
    more: list[bytes],
) -> None:
    found = Wording(tuple(templates), spent)
    begins = Beginnings(found, text)

    assert [begins(one) for one in more] == [found.begins(text + one) for one in more]


def test_a_whole_vocabulary_takes_few_questions_where_little_can_be_said() -> None:
    asked = []

    class Counting(Wording):
        def begins(self, text: bytes) -> bool:
            asked.append(text)
            return super().begins(text)

    found = of("webshop", "Back to Search [SEP] B01 [SEP] B02")
    letters = [bytes([one]) for one in range(32, 127)]
    vocabulary = [a + b + c for a in letters[:40] for b in letters for c in letters[:20]]
    begins = Beginnings(Counting(found.templates, found.spent), b"click[B0")

    assert not any(map(begins, vocabulary))
    assert len(asked) < len(vocabulary) / 100


def test_only_places_that_the_prompt_names_can_be_gone_to() -> None:
    found = of("alfworld", "You see a fridge 1, and a drawer 12.", "[steps 2-3 elided]")

    assert found.allows(b"go to fridge 1")
    assert found.allows(b"put fridge 1 in/on drawer 12")
    assert found.begins(b"go to drawer 1")
    for made_up in (b"go to fridge 2", b"go to drawer 1", b"go to steps 2", b"fly to fridge 1"):
        assert not found.allows(made_up)


def test_what_a_method_left_out_cannot_be_named() -> None:
    seen = [f"On the shelf {number}, you see a mug {number}." for number in range(1, 9)]
    messages = [{"role": "user", "content": "Your task is to: find a mug. A shelf 1, a desk 1."}]
    for number, line in enumerate(seen, start=1):
        messages.append({"role": "assistant", "content": f"go to shelf {number}"})
        messages.append({"role": "user", "content": line})
    sent = method("floor", MethodSettings()).shorten(messages).messages
    names = [f"mug {number}" for number in range(1, 9)]

    whole, short = wording("alfworld", messages), wording("alfworld", sent)

    assert whole is not None
    assert short is not None
    left = [name for name in names if short.allows(f"use {name}".encode())]
    assert all(whole.allows(f"use {name}".encode()) for name in names)
    assert left == [name for name in names if any(name in str(one["content"]) for one in sent)]
    assert len(left) < len(names)


def test_clicks_are_on_the_last_page_and_searches_are_free() -> None:
    found = of("webshop", "cup\n\nWebShop [SEP] Search", "< Prev [SEP] Größe 3½ [SEP] Buy Now")

    assert found.allows(b"click[Buy Now]")
    assert found.allows("click[Größe 3½]".encode())
    assert found.allows("search[a cup, größer]".encode())
    for not_there in (b"click[Search]", b"click[]", b"search[]", b"search[a] b", b"look"):
        assert not found.allows(not_there)
    assert found.completed(b"search[a c") == b""


def test_free_words_can_be_closed_anywhere_and_nothing_else_can() -> None:
    found = of("webshop", "cup\n\nWebShop [SEP] Search")

    assert found.closed("search[a grö".encode()) == "search[a grö]".encode()
    for text in (b"", b"search", b"search[", b"click[Sea", b"search[a]"):
        assert found.closed(text) == b""
    assert Wording(found.templates, frozenset({b"search[a]"})).closed(b"search[a") == b""


def test_what_led_to_nothing_cannot_be_said_again_until_something_else_is_seen() -> None:
    def after(*turns: str) -> Wording:
        found = wording("alfworld", said_by_turns(*turns))
        assert found is not None
        return found

    room, desk = ("You see a desk 1.", "go to desk 1")
    nothing = "Nothing happens."
    stuck = after(room, desk, "On it a pen 1.", "use pen 1", nothing, "look", nothing)

    assert stuck.spent == {b"go to desk 1", b"use pen 1", b"look"}
    assert not stuck.allows(b"look")
    assert not stuck.begins(b"loo")
    assert stuck.begins(b"")
    assert stuck.completed(b"go to ") == b"go to pen 1"
    assert after(room, "look", nothing, desk, "On it a pen 1.").allows(b"look")


def test_what_brought_the_same_twice_is_not_said_a_third_time() -> None:
    there, back = ("go to desk 1", "A pen 1."), ("go to bed 1", "Nothing.")
    once, twice = (
        wording("alfworld", said_by_turns("A desk 1, a bed 1.", *there, *back, *more))
        for more in ((), (*there, *back))
    )

    assert once is not None
    assert once.allows(b"go to desk 1")
    assert twice is not None
    assert not twice.allows(b"go to desk 1")
    assert twice.allows(b"use pen 1")


def test_lines_of_steps_that_were_left_out_count_as_steps() -> None:
    lines = "1 go to desk 1\n2 go to shelf 1 -> mug 1\n3 take mug 2 from desk 1 -> error"
    again = "4 go to desk 1 -> pen 1\n5 take mug 2 from desk 1 -> error"
    seen = f"A desk 1, a shelf 1, a mug 2.\n\n[steps 1-5 elided]\n{lines}\n{again}"
    found = of("alfworld", seen)

    assert found.allows(b"go to shelf 1")
    assert not found.allows(b"go to desk 1")
    assert not found.allows(b"take mug 2 from desk 1")


def test_an_option_is_chosen_once_but_pages_can_be_turned_again() -> None:
    item, first, second = "red [SEP] Buy Now", "Page 1 [SEP] Next >", "Page 2 [SEP] Next >"
    chosen = wording("webshop", said_by_turns(first, "click[B0]", item, "click[red]", item))
    turned = wording("webshop", said_by_turns(first, "click[Next >]", second))

    assert chosen is not None
    assert chosen.spent == {b"click[red]"}
    assert chosen.allows(b"click[Buy Now]")
    assert turned is not None
    assert turned.allows(b"click[Next >]")


def test_other_worlds_are_not_worded() -> None:
    assert wording("desk", told("anything")) is None


def test_what_the_readers_do_first_can_be_said() -> None:
    room = "You are in the middle of a room. You see a desk 1, a shelf 2.\nYour task is to: "
    prompts = {
        "alfworld": f"{room}put a book in shelf.",
        "webshop": "Find me cups\n\nWebShop [SEP] Instruction: [SEP] Find me cups [SEP] Search",
    }
    for name, prompt in prompts.items():
        said = readers.reader(name).answer(told(prompt)).text

        assert of(name, prompt).allows(world(name).extract(said).encode())
