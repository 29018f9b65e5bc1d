from hypothesis import given
from hypothesis import strategies as st

from agora import PriceSheet, sheet_for
from agora.core.prefix_cache import PrefixCache, Segment
from harness.agents.cache import CHARACTERS_PER_TOKEN, ExactCache, Usage, common_characters
from harness.agents.wire import Block, Prompt

BY_BLOCKS = sheet_for("gpt-5")
BY_ENDS = sheet_for("gpt-5.6")
BY_MARKS = sheet_for("claude-sonnet-4-5")


def block(name: str, tokens: int, *, marked: bool = False) -> Block:
    return Block(name * (tokens * CHARACTERS_PER_TOKEN), marked)


@st.composite
def sessions(draw: st.DrawFn) -> list[Prompt]:
    """Prompts that grow, and now and then go back to an earlier one or break off from it."""
    prompts: list[Prompt] = []
    prompt: Prompt = (block("a", 1_200),)
    for _ in range(draw(st.integers(1, 8))):
        if prompts and draw(st.integers(0, 3)) == 0:
            kept = draw(st.integers(1, len(prompt)))
            prompt = prompt[:kept]
        marks = draw(st.booleans())
        new = block(draw(st.sampled_from("bcd")), draw(st.integers(1, 900)))
        bare = (*(Block(one.text) for one in prompt), new)
        prompt = tuple(Block(one.text, marks and n >= len(bare) - 2) for n, one in enumerate(bare))
        prompts.append(prompt)
    return prompts


def ours(prompts: list[Prompt], sheet: PriceSheet) -> list[Usage]:
    cache = PrefixCache(sheet)
    bills = [
        cache.send([Segment(b.text, len(b.text) // CHARACTERS_PER_TOKEN, b.marked) for b in prompt])
        for prompt in prompts
    ]
    return [Usage(bill.uncached, bill.read, bill.written) for bill in bills]


def exact(prompts: list[Prompt], sheet: PriceSheet) -> list[Usage]:
    cache = ExactCache(sheet)
    return [cache.send(prompt, 0.0) for prompt in prompts]


@given(sessions())
def test_marked_prefixes_are_billed_as_the_library_expects(prompts: list[Prompt]) -> None:
    assert exact(prompts, BY_MARKS) == ours(prompts, BY_MARKS)


@given(sessions())
def test_whole_earlier_prompts_are_billed_as_the_library_expects(prompts: list[Prompt]) -> None:
    bare = [tuple(Block(one.text) for one in prompt) for prompt in prompts]

    assert exact(bare, BY_ENDS) == ours(bare, BY_ENDS)


@given(sessions())
def test_the_character_cache_reads_at_least_what_whole_blocks_share(prompts: list[Prompt]) -> None:
    for found, least in zip(exact(prompts, BY_BLOCKS), ours(prompts, BY_BLOCKS), strict=True):
        assert found.read >= least.read
        assert found.tokens == least.tokens


def test_a_prompt_that_lay_idle_beyond_the_time_to_live_is_not_read() -> None:
    cache = ExactCache(BY_BLOCKS)
    prompt = (block("a", 4_000),)
    cache.send(prompt, 0.0)

    assert cache.send(prompt, BY_BLOCKS.ttl_seconds).read > 0
    assert cache.send(prompt, 3 * BY_BLOCKS.ttl_seconds).read == 0


def test_a_short_prompt_is_neither_read_nor_written() -> None:
    cache = ExactCache(BY_MARKS)
    prompt = (block("a", 100, marked=True),)
    cache.send(prompt, 0.0)

    assert cache.send(prompt, 0.0) == Usage(100, 0, 0)


@given(st.text(max_size=30), st.text(max_size=10), st.text(max_size=10))
def test_common_characters_are_counted_within_a_block(head: str, one: str, other: str) -> None:
    left, right = head + one, head + other

    shared = common_characters((Block(left),), (Block(right),))

    assert shared >= len(head)
    assert left[:shared] == right[:shared]
    assert left[: shared + 1] != right[: shared + 1] or left == right
