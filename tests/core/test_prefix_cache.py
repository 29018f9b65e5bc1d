"""Hand-worked bills, from what each provider documents of its cache."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import PriceSheet, sheet_for

# Private: hand-worked bills: the cache's only public face is a sum.
from agora.core.prefix_cache import Bill, PrefixCache, Segment


def simulate(
    prompts: Sequence[Sequence[Segment]], sheet: PriceSheet, at_seconds: Sequence[float] = ()
) -> tuple[Bill, ...]:
    """Return the bill of each prompt, sent one after the other to an empty cache."""
    cache = PrefixCache(sheet)
    times = at_seconds or [0.0] * len(prompts)
    return tuple(cache.send(prompt, at) for prompt, at in zip(prompts, times, strict=True))


def tokens(bill: Bill) -> tuple[int, int, int]:
    return bill.uncached, bill.read, bill.written


def prompt(*sizes: int, keys: str = "abcdefghijklmnopqrstuvwxyz") -> list[Segment]:
    return [Segment(key, size) for key, size in zip(keys, sizes, strict=False)]


def marked(segments: list[Segment], *marks: int) -> list[Segment]:
    last = len(segments)
    places = {mark % last for mark in marks}
    return [Segment(s.key, s.tokens, i in places) for i, s in enumerate(segments)]


class TestOpenAIBefore56:
    """1,024 tokens at least, then steps of 128; writing costs nothing extra."""

    sheet = replace(sheet_for("gpt-4o"), hit=1.0)

    def test_below_1024_tokens_nothing_is_cached(self) -> None:
        first, second = simulate([prompt(1023), prompt(1023)], self.sheet)

        assert tokens(first) == tokens(second) == (1023, 0, 0)

    def test_a_hit_is_a_whole_number_of_128_tokens(self) -> None:
        first, second = simulate([prompt(1100), prompt(1100, 400)], self.sheet)

        # 1,100 = 8 * 128 + 76 and 1,500 = 11 * 128 + 92
        assert tokens(first) == (76, 0, 1024)
        assert tokens(second) == (92, 1024, 384)
        assert second.dollars == pytest.approx((92 + 384 + 0.5 * 1024) * 2.5 / 1e6)

    def test_a_shared_prefix_below_1024_tokens_is_no_hit(self) -> None:
        _, second = simulate([prompt(1000, 500), prompt(1000, 500, keys="ax")], self.sheet)

        assert second.read == 0

    def test_a_change_early_on_makes_all_that_follows_uncached(self) -> None:
        _, second = simulate(
            [prompt(2048, 1024, 1024), prompt(2048, 1024, 1024, keys="axc")], self.sheet
        )

        assert tokens(second) == (0, 2048, 2048)

    def test_an_idle_day_makes_it_cold_and_a_read_makes_it_live_anew(self) -> None:
        same, day = prompt(2048), 86_400
        bills = simulate([same, same, same, same], self.sheet, [0, day, 2 * day, 3 * day + 1])

        assert [bill.read for bill in bills] == [0, 2048, 2048, 0]


class TestOpenAIFrom56:
    """One implicit breakpoint at the end; exact matches there; writes at 1.25."""

    sheet = sheet_for("gpt-5.6-sol")

    def test_a_growing_conversation_reads_the_prompt_before(self) -> None:
        first, second = simulate([prompt(1500), prompt(1500, 301)], self.sheet)

        assert tokens(first) == (0, 0, 1500)
        assert tokens(second) == (0, 1500, 301)
        assert second.dollars == pytest.approx((0.1 * 1500 + 1.25 * 301) * 4 / 1e6)

    def test_a_shorter_prefix_that_ended_no_request_is_not_found(self) -> None:
        _, second = simulate([prompt(1500, 500), prompt(1500, 500, keys="ax")], self.sheet)

        assert tokens(second) == (0, 0, 2000)

    def test_a_prefix_the_caller_marked_is_found(self) -> None:
        _, second = simulate(
            [marked(prompt(1500, 500), 0), prompt(1500, 500, keys="ax")], self.sheet
        )

        assert tokens(second) == (0, 1500, 500)

    def test_it_lives_for_half_an_hour(self) -> None:
        bills = simulate([prompt(1500)] * 3, self.sheet, [0, 1800, 3601])

        assert [bill.read for bill in bills] == [0, 1500, 0]


class TestAnthropic:
    """Only what is marked, at most four marks, 20 blocks back, writes at 1.25."""

    sheet = sheet_for("claude-opus-4-8")

    def test_nothing_is_cached_without_a_mark(self) -> None:
        first, second = simulate([prompt(5000)] * 2, self.sheet)

        assert tokens(first) == tokens(second) == (5000, 0, 0)

    def test_all_up_to_the_mark_is_written_then_read(self) -> None:
        both = marked(prompt(188_086, 21), 0)
        first, second = simulate([both, both], self.sheet)

        assert tokens(first) == (21, 0, 188_086)
        assert tokens(second) == (21, 188_086, 0)

    def test_a_moving_mark_reads_the_one_before_and_writes_the_rest(self) -> None:
        first, second = simulate(
            [marked(prompt(1500, 100), -1), marked(prompt(1500, 100, 300, 40), -1)], self.sheet
        )

        assert tokens(first) == (0, 0, 1600)
        assert tokens(second) == (0, 1600, 340)
        assert second.dollars == pytest.approx((0.1 * 1600 + 1.25 * 340) * 5 / 1e6)

    def test_a_prefix_below_the_minimum_is_sent_uncached_without_an_error(self) -> None:
        short = marked(prompt(1000, 500), 0)
        first, second = simulate([short, short], self.sheet)

        assert tokens(first) == tokens(second) == (1500, 0, 0)

    def test_twenty_blocks_back_is_found_and_twenty_one_is_not(self) -> None:
        def grown(blocks: int) -> list[Segment]:
            head = Segment("head", 2000)
            return marked([head, *(Segment(i, 10) for i in range(blocks))], -1)

        _, near = simulate([grown(0), grown(19)], self.sheet)
        _, far = simulate([grown(0), grown(20)], self.sheet)

        assert near.read == 2000
        assert far.read == 0

    def test_a_second_mark_on_the_head_is_found_after_the_rest_has_changed(self) -> None:
        before = marked(prompt(2000, 500, 500), 0, -1)
        after = marked(prompt(2000, 300, 500, keys="axc"), 0, -1)
        _, second = simulate([before, after], self.sheet)

        assert tokens(second) == (0, 2000, 800)

    def test_five_marks_are_refused(self) -> None:
        with pytest.raises(ValueError, match="takes at most 4 breakpoints"):
            PrefixCache(self.sheet).send(marked(prompt(*[500] * 5), 0, 1, 2, 3, 4))

    def test_it_lives_for_five_minutes_from_its_last_use(self) -> None:
        one = marked(prompt(2000), -1)
        bills = simulate([one] * 4, self.sheet, [0, 299, 598, 899])

        assert [bill.read for bill in bills] == [0, 2000, 2000, 0]

    def test_without_a_lookback_limit_any_marked_place_is_found(self) -> None:
        sheet = PriceSheet(name="x", input=1, read=0.1, write=1.25, output=1, breakpoints=4)
        long = [Segment(i, 10) for i in range(100)]
        _, second = simulate([marked(long[:1], 0), marked(long, -1)], sheet)

        assert second.read == 10


class TestGemini:
    """Implicit, from 4,096 tokens on; no surcharge."""

    sheet = sheet_for("gemini-3.1-pro-preview")

    def test_from_the_minimum_on_the_shared_prefix_is_read(self) -> None:
        first, second, third = simulate(
            [prompt(4000), prompt(4000, 96), prompt(4000, 96, 5)], self.sheet
        )

        assert tokens(first) == (4000, 0, 0)
        assert tokens(second) == (0, 0, 4096)
        assert tokens(third) == (0, 4096, 5)


class TestDeepSeek:
    """Whole units: where requests ended, and what two of them shared."""

    sheet = sheet_for("deepseek-v4-flash")

    def test_a_further_round_reads_the_whole_one_before(self) -> None:
        _, second = simulate([prompt(300, 200), prompt(300, 200, 50)], self.sheet)

        assert tokens(second) == (0, 500, 50)

    def test_a_shared_prefix_is_read_from_the_third_request_on(self) -> None:
        bills = simulate(
            [prompt(3000, 20), prompt(3000, 30, keys="ax"), prompt(3000, 40, keys="ay")],
            self.sheet,
        )

        assert [bill.read for bill in bills] == [0, 0, 3000]


def test_a_mark_below_the_minimum_is_not_kept_where_requests_are() -> None:
    _, second = simulate(
        [marked(prompt(100, 2000), 0), prompt(100, 2000, keys="ax")], sheet_for("gpt-5.6")
    )

    assert second.read == 0


class TestMistral:
    """A tenth of the price, nothing for writing."""

    def test_a_hit_is_billed_at_a_tenth(self) -> None:
        _, second = simulate([prompt(640), prompt(640, 64)], sheet_for("mistral-large-latest"))

        assert tokens(second) == (0, 640, 64)
        assert second.dollars == pytest.approx((64 + 64) * 0.5 / 1e6)


def test_without_a_cache_every_token_is_plain_input() -> None:
    bills = simulate([prompt(5000), prompt(5000, 10)], sheet_for("self-hosted"))

    assert [tokens(bill) for bill in bills] == [(5000, 0, 0), (5010, 0, 0)]


SHEETS = [
    sheet_for(name)
    for name in (
        *("gpt-4o", "gpt-5.6", "claude-opus-4-8", "gemini-2.5-pro", "deepseek-v4-flash"),
        *("mistral-large", "self-hosted"),
    )
]


@given(
    sheet=st.sampled_from(SHEETS),
    sent=st.lists(
        st.lists(
            st.builds(Segment, st.integers(0, 3), st.sampled_from([100, 700, 1500]), st.booleans()),
            min_size=1,
            max_size=4,
        ),
        max_size=8,
    ),
    gaps=st.lists(st.sampled_from([0, 200, 400, 9000]), min_size=8, max_size=8),
)
def test_every_token_is_billed_once_and_nothing_is_read_that_was_not_sent_before(
    sheet: PriceSheet, sent: list[list[Segment]], gaps: list[int]
) -> None:
    now = 0
    cache = PrefixCache(sheet)
    before: list[list[tuple[object, int]]] = []
    for segments, gap in zip(sent, gaps, strict=False):
        now += gap
        bill = cache.send(segments, now)
        plain = [(segment.key, segment.tokens) for segment in segments]
        assert bill.tokens == sum(segment.tokens for segment in segments)
        assert min(tokens(bill)) >= 0
        assert bill.read == 0 or bill.read >= sheet.minimum_prefix
        shared = 0
        for other in before:
            size = 0
            for mine, theirs in zip(plain, other, strict=False):
                if mine != theirs:
                    break
                size += mine[1]
            shared = max(shared, size)
        assert bill.read <= shared
        before.append(plain)


def test_prefixes_that_do_not_return_are_forgotten_and_living_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agora.core.prefix_cache._MOST_KEPT", 8)
    cache = PrefixCache(replace(sheet_for("gpt-4o"), hit=1.0))
    for edit in range(20):
        cache.send([Segment("preamble", 1_280), Segment(("edit", edit), 512)])

    assert cache.send([Segment("preamble", 1_280), Segment("new", 512)]).read == 1_280


def test_a_cache_that_misses_bills_the_expected_share_as_written_again() -> None:
    sheet = PriceSheet(name="x", input=1.0, read=0.1, write=1.25, output=1.0, hit=0.75)
    first, second = simulate([prompt(2000), prompt(2000, 400)], sheet)

    assert tokens(first) == (0, 0, 2000)
    assert tokens(second) == (0, 1500, 900)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=6),
        max_size=8,
    ),
    st.sampled_from(["gpt-4o", "claude-sonnet-5", "deepseek-v4-flash"]),
)
def test_a_prompt_is_billed_the_same_whatever_prompt_was_hashed_before_it(
    prompts: list[list[tuple[str, bool]]], model: str
) -> None:
    sheet = sheet_for(model)
    remembering, forgetting = PrefixCache(sheet), PrefixCache(sheet)
    for drawn in prompts:
        marks = 0
        segments = []
        for key, breakpoint_ in drawn:
            marks += breakpoint_
            segments.append(Segment(key, 700, breakpoint=breakpoint_ and marks <= 4))
        forgetting._last = PrefixCache(sheet)._last

        assert remembering.send(segments) == forgetting.send(segments)
