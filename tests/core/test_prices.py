import json
import os
import pickle
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import PriceSheet, sheet_for
from agora.core import Tier, load_sheets, shipped_sheets
from agora.errors import PriceSheetError

BASES = {
    *("unknown", "claude", "gpt", "gpt-automatic", "gemini", "deepseek", "mistral"),
    *("undocumented", "self-hosted"),
}
TIERS = '[mine]\nlike = "claude"\ntiers = [{}]'
LIVES = '[mine]\nlike = "claude"\nlifetimes = [{}]'
# What the map calls a family that we name more shortly.
MAP_NAMES = {
    "claude-opus-4-1": "anthropic.claude-opus-4-1-20250805-v1:0",
    "claude-sonnet-4": "anthropic.claude-sonnet-4-20250514-v1:0",
    "claude-3-7-sonnet": "anthropic.claude-3-7-sonnet-20250219-v1:0",
    "claude-3-5-haiku": "anthropic.claude-3-5-haiku-20241022-v1:0",
    "gemini-3.1-pro": "gemini/gemini-3.1-pro-preview",
    "gemini-3-flash": "gemini/gemini-3-flash-preview",
    "gemini-3-pro": "vertex_ai/gemini-3-pro-preview",
    "minimax-m3": "minimax/MiniMax-M3",
}
OTHER_PREFIXES = ("xai/", "moonshot/", "zai/", "dashscope/")
PLATFORMS = {"azure": "azure_ai", "vertex": "vertex_ai"}


# Where we differ from the map on purpose: sheet, field, and why.
ACCEPTED = {
    **dict.fromkeys(
        [("claude-fable-5-2", ""), ("gpt-6.1-terra", ""), ("gemini-4-carbon", "")],
        "younger than the map: the provider's page and third parties, as the sheet's source says",
    ),
    **dict.fromkeys(
        [
            ("claude-opus-4-1", "lifetimes"),
            ("claude-sonnet-4", "lifetimes"),
            ("claude-3-7-sonnet", "lifetimes"),
            ("claude-3-5-haiku", "lifetimes"),
        ],
        "the map has these under Bedrock only, whose rows name no price for an hour; the "
        "provider's page has one price for it, twice the input",
    ),
}


def price_map() -> dict[str, Any]:
    path = os.environ.get("AGORA_PRICE_MAP", "")
    if not path:
        spec = find_spec("litellm")
        if spec is None or spec.origin is None:
            pytest.skip(
                "litellm is not installed; its price map is what the sheets are checked against. "
                "AGORA_PRICE_MAP may name its model_prices_and_context_window_backup.json instead"
            )
        path = str(Path(spec.origin).parent / "model_prices_and_context_window_backup.json")
    found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found


def map_row(name: str, known: dict[str, Any]) -> dict[str, Any] | None:
    prefixes = ("", "gemini/", "deepseek/", "mistral/", *OTHER_PREFIXES)
    platform, _, bare = name.rpartition("/")
    names = [MAP_NAMES.get(name, ""), f"mistral/{name}-latest"]
    names += [f"{PLATFORMS[platform]}/{bare}"] if platform else [p + name for p in prefixes]
    return next((known[candidate] for candidate in names if candidate in known), None)


def tiers_of(row: dict[str, Any]) -> list[tuple[int, float, float]]:
    """Return the sizes above which a row is costlier, with the factors of input and output."""
    if "tiered_pricing" in row:
        rows = row["tiered_pricing"]
        return [
            (
                int(one["range"][0]),
                one["input_cost_per_token"] / rows[0]["input_cost_per_token"],
                one["output_cost_per_token"] / rows[0]["output_cost_per_token"],
            )
            for one in rows[1:]
        ]
    found = []
    for key in row:
        above = re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key)
        if above is not None:
            price = row[key] / row["input_cost_per_token"]
            name = key.removeprefix("input_cost_per_token_")
            output = row[f"output_cost_per_token_{name}"] / row["output_cost_per_token"]
            # Reads and writes rise as the input does: a sheet has them as ratios to it.
            for kind in ("cache_read_input_token_cost", "cache_creation_input_token_cost"):
                if row.get(f"{kind}_{name}") and row.get(kind):
                    assert row[f"{kind}_{name}"] / row[kind] == pytest.approx(price)
            found.append((int(above[1]) * 1000, price, output))
    return sorted(found)


def differences(sheet: PriceSheet, row: dict[str, Any]) -> list[str]:
    """Return the fields in which a sheet is not what the map's row says."""
    row = {**row, **row.get("tiered_pricing", [{}])[0]}
    price = row["input_cost_per_token"]
    read, write = (row.get(f"cache_{kind}_input_token_cost") for kind in ("read", "creation"))
    hour = row.get("cache_creation_input_token_cost_above_1hr")
    said: dict[str, Any] = {
        "input": price * 1e6,
        "output": row["output_cost_per_token"] * 1e6,
        "read": 1 if read is None else read / price,
        "write": write / price if write else 1,
        "window": row["max_input_tokens"],
        "lifetimes": [hour / price] if hour else [],
    }
    ours = {field: getattr(sheet, field) for field in said}
    # The map says nothing of OpenAI's 12 hours.
    ours["lifetimes"] = [life.write for life in sheet.lifetimes if life.ttl == "1h"]
    if sheet.caches and "prompt_cache_min_tokens" in row:
        said["minimum_prefix"] = row["prompt_cache_min_tokens"]
        ours["minimum_prefix"] = sheet.minimum_prefix
    differ = [field for field in said if ours[field] != pytest.approx(said[field], abs=1e-3)]
    tiers = [(tier.above, tier.input, tier.output) for tier in sheet.tiers]
    if [pytest.approx(one, abs=1e-3) for one in tiers_of(row)] != tiers:
        differ.append("tiers")
    retired = row.get("deprecation_date", "9999")
    if (retired < sheet.date) != (f"retired on {retired}" in sheet.note):
        differ.append("note")
    return differ


def test_every_sheet_agrees_with_the_price_map_but_where_a_reason_is_given() -> None:
    known = price_map()
    used = set()
    unexplained = []
    for name, sheet in shipped_sheets().items():
        if name in BASES:
            continue
        row = map_row(name, known)
        for field in [""] if row is None else differences(sheet, row):
            used.add((name, field))
            if (name, field) not in ACCEPTED:
                unexplained.append(f"{name}: {field or 'is not in the map'}")

    assert not unexplained
    # A reason that no longer holds goes, so that the list stays one of differences.
    assert not sorted(ACCEPTED.keys() - used)


def test_every_sheet_names_its_source_and_date() -> None:
    for sheet in shipped_sheets().values():
        assert sheet.source
        assert sheet.date


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("anthropic/claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("vertex_ai/claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("openai/gpt-4o-2024-08-06", "gpt-4o"),
        ("ft:gpt-4o-mini-2024-07-18:org::id", "gpt-4o-mini"),
        ("GPT-5.4", "gpt-5.4"),
        ("azure/gpt-5-4", "gpt-5.4"),
        ("gpt-5-codex", "gpt-5"),
        ("o3-mini-2025-01-31", "o3-mini"),
        ("models/gemini-2.5-flash-lite", "gemini-2.5-flash-lite"),
        ("mistral-large-2512", "mistral-large"),
        ("deepseek/deepseek-v4-pro", "deepseek-v4-pro"),
        ("claude-opus-9", "claude"),
        ("gemini-3-pro-preview", "gemini-3-pro"),
        ("gemini-9-pro-preview", "gemini"),
        ("gpt-5.9", "gpt"),
        ("gpt-4omni", "gpt"),
        ("gptish", "unknown"),
        ("something-new", "unknown"),
        ("", "unknown"),
        ("us.", "unknown"),
    ],
)
def test_a_model_finds_the_sheet_of_its_longest_family(model: str, family: str) -> None:
    assert sheet_for(model).name == family


@pytest.mark.parametrize(
    ("model", "price", "read", "write", "output"),
    [
        ("claude-fable-5-2", 8, 0.025, 1.25, 40),
        ("gpt-6.1-terra", 1, 0.05, 1.25, 5),
        ("gemini-4-carbon", 2, 0.05, 1, 10),
        ("deepseek-flash", 0.3, 0.02, 1, 1.2),
        ("deepseek-v9", 0.3, 0.02, 1, 1.2),
        ("mistral-medium-3.5", 1.5, 0.1, 1, 7.5),
        ("o1-pro", 150, 1, 1, 600),
        ("xai/grok-4.7", 2, 0.25, 1, 6),
        ("moonshot/kimi-k3", 3, 0.1, 1, 15),
        ("kimi-k2.7-code", 0.95, 0.2, 1, 4),
        ("zai/glm-5.3", 1.4, 0.1857, 1, 4.4),
        ("glm-5.3-flash", 0.15, 0.2, 1, 0.5),
        ("dashscope/qwen3.8-max", 2, 0.125, 1, 6),
        ("qwen3-coder-plus", 1, 0.1, 1, 5),
        ("minimax/MiniMax-M3", 0.3, 0.2, 1, 1.2),
        ("azure_ai/deepseek-v3.2", 0.58, 1, 1, 1.68),
        ("azure/DeepSeek-V4-Pro", 1.74, 0.0833, 1, 3.48),
    ],
)
def test_the_sheet_of_a_model_has_the_prices_that_were_found_for_it(
    model: str, price: float, read: float, write: float, output: float
) -> None:
    sheet = sheet_for(model)

    assert (sheet.input, sheet.read, sheet.write, sheet.output) == (price, read, write, output)


@pytest.mark.parametrize(
    ("model", "prompt", "factor", "output"),
    [
        ("claude-haiku-5-5", 100_000, 1, 1),
        ("claude-haiku-5-5", 100_001, 5, 5),
        *((model, 272_001, 2, 1.5) for model in ("gpt-5.4", "gpt-5.5-pro", "gpt-5.6", "gpt-6-sol")),
        *((model, 272_001, 2, 1.5) for model in ("gpt-6.1-sol", "gpt-6.1-terra", "gpt-9")),
        ("gpt-6.1-terra", 272_000, 1, 1),
        ("gpt-5.4-mini", 272_001, 1, 1),
        ("gemini-3.1-pro", 200_001, 2, 1.5),
        ("grok-4.7", 200_001, 2, 2),
        ("qwen3-coder-plus", 32_001, 1.8, 1.8),
        ("qwen3-coder-plus", 999_999, 6, 12),
        ("claude-opus-5", 999_999, 1, 1),
    ],
)
def test_above_a_size_the_whole_request_costs_more(
    model: str, prompt: int, factor: float, output: float
) -> None:
    sheet = sheet_for(model)

    assert (sheet.tier(prompt).input, sheet.tier(prompt).output) == (factor, output)
    assert sheet.dollars(uncached=prompt, output=9) == pytest.approx(
        (prompt * sheet.input * factor + 9 * sheet.output * output) / 1e6
    )
    assert sheet.cliff is None or sheet.tier(sheet.cliff).input == 1


@pytest.mark.parametrize(
    ("model", "ttl", "write", "seconds"),
    [
        ("claude-opus-5", None, 1.25, 300),
        ("claude-opus-5", "5m", 1.25, 300),
        ("claude-opus-5", "1h", 2.0, 3600),
        ("us.anthropic.claude-sonnet-5-v1:0", "1h", 2.0, 3600),
        ("gpt-5.6", None, 1.25, 1800),
        ("gpt-5.6", "30m", 1.25, 1800),
        ("gpt-6.1-sol", "12h", 2.5, 43200),
        ("gpt-5.5", "12h", 1.0, 86400),
        ("gpt-4o", None, 1.0, 86400),
        ("gemini-3-pro", None, 1.0, 86400),
        ("openrouter/openai/gpt-5.5", None, 1.0, 600),
        ("openrouter/anthropic/claude-opus-5", None, 1.25, 300),
        ("openrouter/anthropic/claude-opus-5", "1h", 2.0, 600),
        ("openrouter/openai/gpt-5.6", "12h", 2.5, 600),
    ],
)
def test_what_a_write_costs_and_how_long_it_lasts_goes_by_what_is_asked_for(
    model: str, ttl: str | None, write: float, seconds: float
) -> None:
    sheet = sheet_for(model).for_ttl(ttl)

    assert (sheet.write, sheet.ttl_seconds) == (write, seconds)
    assert sheet.for_ttl("1h") == sheet.for_ttl("12h") == sheet


def test_a_platform_has_its_own_rules_where_it_is_listed_and_the_providers_elsewhere() -> None:
    assert sheet_for("vertex_ai/gemini-4-argon").minimum_prefix == 6144
    assert sheet_for("gemini/gemini-4-argon").minimum_prefix == 4096
    assert sheet_for("vertex_ai/gemini-3.8-flash") == sheet_for("gemini-3.8-flash")
    assert sheet_for("azure/gpt-5.5") == sheet_for("gpt-5.5")
    ours = load_sheets('["azure/gpt-5.5"]\nlike = "gpt-5.5"\nread = 0.2')
    assert sheet_for("azure/gpt-5.5", ours).read == 0.2
    assert sheet_for("gpt-5.5", ours).read == 0.1


def test_a_best_effort_cache_is_taken_at_the_best_that_was_measured() -> None:
    assert sheet_for("gpt-5").hit == 0.97
    assert sheet_for("gemini-3-pro").hit == 0.93
    assert sheet_for("gpt-5.6").hit == sheet_for("claude-opus-5").hit == 1.0


tokens = st.integers(0, 2_000_000)
factors = st.floats(0, 3)


@st.composite
def tiered(draw: st.DrawFn) -> PriceSheet:
    rows: list[Tier] = []
    above, factor, output = 0, 1.0, 1.0
    for _ in range(draw(st.integers(0, 4))):
        above += draw(st.integers(1, 300_000))
        factor, output = factor + draw(factors), output + draw(factors)
        rows.append(Tier(above, factor, output))
    return PriceSheet(name="x", input=3.0, read=0.1, write=1.25, output=15.0, tiers=tuple(rows))


@given(sheet=tiered(), parts=st.tuples(tokens, tokens, tokens, tokens), more=tokens)
def test_dollars_are_those_of_the_tier_by_hand_and_never_fall_with_more_tokens(
    sheet: PriceSheet, parts: tuple[int, int, int, int], more: int
) -> None:
    uncached, read, written, output = parts
    prompt = uncached + read + written
    above = [tier for tier in sheet.tiers if tier.above < prompt]
    by_input, by_output = (above[-1].input, above[-1].output) if above else (1.0, 1.0)
    dollars = sheet.dollars(uncached=uncached, read=read, written=written, output=output)

    by_hand = (uncached + 0.1 * read + 1.25 * written) * 3.0 * by_input + output * 15.0 * by_output
    assert dollars == pytest.approx(by_hand / 1e6)
    for kind in ("uncached", "read", "written", "output"):
        grown = {"uncached": uncached, "read": read, "written": written, "output": output}
        grown[kind] += more
        assert sheet.dollars(**grown) >= dollars * (1 - 1e-12)


@given(sheet=tiered(), size=tokens)
def test_a_cliff_is_the_last_size_at_the_sheets_own_prices(sheet: PriceSheet, size: int) -> None:
    if sheet.cliff is None or size <= sheet.cliff:
        assert (sheet.tier(size).input, sheet.tier(size).output) == (1, 1)
    else:
        assert sheet.tier(size) in sheet.tiers


@pytest.mark.parametrize("kind", ["uncached", "read", "written"])
def test_one_token_past_the_cliff_raises_the_price_of_all_however_it_was_billed(kind: str) -> None:
    sheet = sheet_for("claude-haiku-5-5")
    assert sheet.cliff is not None

    below, above = sheet.dollars(**{kind: sheet.cliff}), sheet.dollars(**{kind: sheet.cliff + 1})

    assert above > 4 * below


@given(written=st.integers(1, 10**6), share=st.floats(0, 1))
def test_writes_of_both_lifetimes_in_one_call_are_billed_each_at_its_own(
    written: int, share: float
) -> None:
    sheet = sheet_for("claude-opus-5")
    hour = int(written * share)
    paid = sheet.as_billed(written, hour, "1h")

    dollars = paid.dollars(read=7, written=written)
    by_hand = sheet.dollars(read=7, written=written - hour)
    by_hand += sheet.for_ttl("1h").dollars(written=hour)
    assert dollars == pytest.approx(by_hand)


def test_where_a_bill_does_not_say_how_long_the_request_does() -> None:
    sheet = sheet_for("claude-opus-5")

    assert sheet.as_billed(1_000, None, "1h") == sheet.as_billed(0, 0, "1h") == sheet.for_ttl("1h")
    assert sheet.as_billed(1_000, 0, "1h") == sheet.for_ttl(None)
    assert sheet.as_billed(1_000, 9_999).write == 2.0
    other = sheet_for("gpt-5.6")
    assert other.as_billed(1_000, 500) == other.for_ttl(None)


def test_a_model_without_a_sheet_is_taken_to_be_dear_to_edit() -> None:
    sheet = sheet_for("nobody/knows-me")

    assert (sheet.read, sheet.write) == (0.1, 1.25)


@given(st.text())
def test_any_name_finds_a_sheet(model: str) -> None:
    assert sheet_for(model).name in shipped_sheets()


def test_the_callers_own_sheets_are_searched_first() -> None:
    ours = load_sheets('["gpt-4o"]\nlike = "gpt-4o"\nread = 0.4\n[new]\nlike = "gpt-4o"')

    assert sheet_for("openai/gpt-4o-mini", ours).read == 0.4
    assert sheet_for("new", ours).name == "new"
    assert sheet_for("gpt-5", ours).name == "gpt-5"


def test_without_the_cache_every_token_costs_the_same() -> None:
    sheet = sheet_for("claude-opus-4-5").no_cache()

    assert not sheet.caches
    assert sheet.dollars(uncached=10) == sheet.dollars(read=10) == sheet.dollars(written=10)
    assert sheet.input == sheet_for("claude-opus-4-5").input


def test_a_token_that_the_cache_misses_is_priced_as_written_again() -> None:
    sheet = PriceSheet(name="x", input=4.0, read=0.2, write=1.2, output=8.0, hit=0.75)

    assert sheet.expected_read == pytest.approx(0.75 * 0.2 + 0.25 * 1.2)
    assert sheet.no_cache().expected_read == 1.0


def test_dollars_add_up_by_how_tokens_were_billed() -> None:
    sheet = PriceSheet(name="x", input=4.0, read=0.25, write=1.5, output=8.0)

    assert sheet.caches
    assert sheet.dollars(uncached=1e6, read=1e6, written=1e6, output=1e6) == 4 + 1 + 6 + 8


def test_like_takes_over_all_but_the_note_and_no_other_lifetimes_than_those_of_its_write() -> None:
    sheets = load_sheets(
        '[a]\nlike = "claude-haiku-5-5"\n[b]\nlike = "claude"\nwrite = 1.0\n'
        '[c]\nlike = "claude"\nwrite = 1.0\nlifetimes = [{ttl = "1h", seconds = 3600, write = 1}]\n'
        '[d]\nlike = "claude-fable-5-2"'
    )

    haiku = sheet_for("claude-haiku-5-5")
    assert (sheets["a"].tiers, sheets["a"].lifetimes) == (haiku.tiers, haiku.lifetimes)
    assert sheets["b"].for_ttl("1h").write == sheets["c"].for_ttl("1h").write == 1.0
    assert sheets["c"].for_ttl("1h").ttl_seconds == 3600
    assert sheet_for("claude-fable-5-2").note
    assert not sheets["d"].note


def test_a_sheet_may_be_like_one_above_it_that_ships_nowhere() -> None:
    sheets = load_sheets(
        "[mine]\ninput = 3\nread = 0.2\nwrite = 1.25\noutput = 15.0\n"
        '[other]\nlike = "mine"\nwrite = 1.5\n[claude]\nlike = "mine"\n[last]\nlike = "claude"'
    )

    assert (sheets["other"].read, sheets["other"].write) == (0.2, 1.5)
    # One's own comes before the one that ships.
    assert sheets["last"].read == 0.2 != sheet_for("claude").read


def test_a_sheet_of_ones_own_needs_only_its_prices() -> None:
    sheets = load_sheets("[mine]\ninput = 3\nread = 0.1\nwrite = 1.25\noutput = 15.0\nwindow = 9")

    assert sheets["mine"] == PriceSheet(
        name="mine", input=3.0, read=0.1, write=1.25, output=15.0, window=9
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "is not TOML"),
        ("mine = 3", "'mine' is not a table"),
        ("[mine]\nread = 0.1", "lacks input, write, output"),
        ('[mine]\nlike = "nothing"', "is like 'nothing', but no sheet above it has that name"),
        ('[mine]\nlike = "claude"\ncolour = 1', "has colour; the fields are"),
        ('[mine]\nlike = "claude"\nread = "low"', "has read 'low'; it is a float"),
        ('[mine]\nlike = "claude"\nread = true', "has read True; it is a float"),
        ('[mine]\nlike = "claude"\nblock = true', "has block True; it is a int"),
        ('[mine]\nlike = "claude"\nread = 1.5', "a ratio to input, from 0 to 1"),
        ('[mine]\nlike = "claude"\nwrite = 0.5', "a ratio to input, 1 or more"),
        ('[mine]\nlike = "claude"\nwrite = nan', "a ratio to input, 1 or more"),
        ('[mine]\nlike = "claude"\ninput = -1', "has input -1.0; it must be 0 or more"),
        ('[mine]\nlike = "claude"\nhit = 0', "has hit 0.0; it must be a share above 0"),
        ('[mine]\nlike = "claude"\ntiers = 3', "a list of tables with above, input, output"),
        ('[mine]\nlike = "claude"\ntiers = [{above = 3}]', "with above, input, output"),
        (TIERS.format("{above = 1.5, input = 2, output = 2}"), "has above 1.5; it is a int"),
        (TIERS.format("{above = 9, input = 0.5, output = 2}"), "sizes and factors must rise"),
        (TIERS.format("{above = 9, input = 2, output = nan}"), "sizes and factors must rise"),
        (TIERS.format("{above = 0, input = 2, output = 2}"), "sizes and factors must rise"),
        (LIVES.format('{ttl = "1h", seconds = 0, write = 2}'), "needs a ttl, seconds above 0"),
        (LIVES.format('{ttl = "", seconds = 9, write = 2}'), "needs a ttl, seconds above 0"),
        (LIVES.format('{ttl = "1h", seconds = 9, write = 0.5}'), "a write of 1 or more"),
    ],
)
def test_a_sheet_that_cannot_be_meant_is_refused_with_what_is_wrong(
    text: str, problem: str
) -> None:
    with pytest.raises(PriceSheetError) as caught:
        load_sheets(text)

    assert problem in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_data_file_is_not_read_on_import() -> None:
    code = (
        "import agora.core.prices as prices\n"
        "assert prices.shipped_sheets.cache_info().currsize == 0\n"
        "prices.sheet_for('x')\n"
        "assert prices.shipped_sheets.cache_info().currsize == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
