import json
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.prices import (
    UNKNOWN,
    PriceSheet,
    load_sheets,
    sheet_for,
    shipped_sheets,
)
from agora.errors import PriceSheetError

BASES = {UNKNOWN, "claude", "gpt", "gpt-automatic", "gemini", "deepseek", "mistral", "self-hosted"}
# What the map calls a family that we name more shortly.
MAP_NAMES = {
    "claude-opus-4-1": "anthropic.claude-opus-4-1-20250805-v1:0",
    "claude-sonnet-4": "anthropic.claude-sonnet-4-20250514-v1:0",
    "claude-3-7-sonnet": "anthropic.claude-3-7-sonnet-20250219-v1:0",
    "claude-3-5-haiku": "anthropic.claude-3-5-haiku-20241022-v1:0",
    "gemini-3.1-pro": "gemini/gemini-3.1-pro-preview",
    "gemini-3-flash": "gemini/gemini-3-flash-preview",
    "gemini-3-pro": "vertex_ai/gemini-3-pro-preview",
}


def price_map() -> dict[str, Any]:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        pytest.skip(
            "litellm is not installed; its price map is what the sheets are checked against"
        )
    path = Path(spec.origin).parent / "model_prices_and_context_window_backup.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_every_sheet_agrees_with_the_price_map() -> None:
    known = price_map()
    compared = 0
    for name, sheet in shipped_sheets().items():
        if name in BASES:
            continue
        prefixes = ("", "gemini/", "deepseek/", "mistral/")
        names = [MAP_NAMES.get(name, ""), *(prefix + name for prefix in prefixes)]
        names += [f"mistral/{name}-latest"] * (sheet.source.startswith("docs.mistral"))
        if f"mistral/{name}-latest" in known:
            names.insert(0, f"mistral/{name}-latest")
        row = known[next(candidate for candidate in names if candidate in known)]
        compared += 1
        price = row["input_cost_per_token"]
        assert sheet.input == pytest.approx(price * 1e6), name
        assert sheet.output == pytest.approx(row["output_cost_per_token"] * 1e6), name
        read = row.get("cache_read_input_token_cost")
        assert sheet.read == pytest.approx(1 if read is None else read / price, abs=1e-3), name
        write = row.get("cache_creation_input_token_cost")
        assert sheet.write == pytest.approx(write / price if write else 1, abs=1e-3), name
        assert sheet.window == row["max_input_tokens"], name
        if sheet.caches and "prompt_cache_min_tokens" in row:
            assert sheet.minimum_prefix == row["prompt_cache_min_tokens"], name
    assert compared == len(shipped_sheets()) - len(BASES)


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
        ("gptish", UNKNOWN),
        ("something-new", UNKNOWN),
        ("", UNKNOWN),
        ("us.", UNKNOWN),
    ],
)
def test_a_model_finds_the_sheet_of_its_longest_family(model: str, family: str) -> None:
    assert sheet_for(model).name == family


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
        ('[mine]\nlike = "nothing"', "is like 'nothing', which is no sheet above it"),
        ('[mine]\nlike = "claude"\ncolour = 1', "has colour; the fields are"),
        ('[mine]\nlike = "claude"\nread = "low"', "has read 'low'; it is a float"),
        ('[mine]\nlike = "claude"\nread = true', "has read True; it is a float"),
        ('[mine]\nlike = "claude"\nblock = true', "has block True; it is a int"),
        ('[mine]\nlike = "claude"\nread = 1.5', "a ratio to input, from 0 to 1"),
        ('[mine]\nlike = "claude"\nwrite = 0.5', "a ratio to input, 1 or more"),
        ('[mine]\nlike = "claude"\nwrite = nan', "a ratio to input, 1 or more"),
        ('[mine]\nlike = "claude"\ninput = -1', "has input -1.0; 0 or more"),
        ('[mine]\nlike = "claude"\nhit = 0', "has hit 0.0; it is a share, above 0"),
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
