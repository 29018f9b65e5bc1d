import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from agora.core import shipped_sheets
from tests.cli.conftest import Run


def test_every_sheet_is_listed_with_its_source_its_date_and_its_age(run: Run) -> None:
    said = run("prices").stdout

    words = " ".join(said.split())
    for name, sheet in shipped_sheets().items():
        assert f"\n{name} " in said
        assert " ".join(sheet.source.split()) in words
        assert " ".join(sheet.note.split()) in words
    assert "2026-11-17, " in said
    assert "above 100,000 tokens: input ×5, output ×5" in said
    assert "1.25, 1h 2 " in said
    assert max(map(len, said.splitlines())) <= 80


def test_the_sheet_of_each_named_model_is_listed_and_a_family_is_named(run: Run) -> None:
    found = run("prices", "openrouter/openai/gpt-5.5", "gpt-99")

    assert "sticky routing" in found.stdout
    assert "10 min" in found.stdout
    assert "gpt-99 has no sheet of its own: priced as gpt." in found.stderr


def test_own_sheets_are_listed_and_a_wrong_one_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[mine]\nlike = "gpt-4o"\nsource = "my contract"\ndate = "2020-01-01"')

    said = run("prices", "--prices", str(file), "mine").stdout
    assert "my contract" in said
    assert "days old: prices may have changed" in said
    assert "1 of 1 sheets are more than 90 days old" in said
    file.write_text("[mine]\nread = 0.1")
    wrong = run("prices", "--prices", str(file))
    assert wrong.exit_code == 1
    assert "'mine' lacks input, write, output" in wrong.output


def test_the_list_is_written_as_json_with_ages(run: Run) -> None:
    [found] = json.loads(run("prices", "claude-haiku-5-5", "--json", "-").stdout)

    assert found["tiers"] == [{"above": 100_000, "input": 5.0, "output": 5.0}]
    assert found["lifetimes"] == [{"ttl": "1h", "seconds": 3600.0, "write": 2.0}]
    assert found["age_days"] == (datetime.now(tz=UTC).date() - date(2026, 11, 17)).days


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (0, ", today"),
        (1, ", 1 day old"),
        (90, ", 90 days old"),
        (91, ", 91 days old: prices may have changed"),
        (-2, ", which is in the future: is this machine's clock right?"),
        (None, "no date is given: prices may have changed"),
    ],
)
def test_a_sheet_says_how_old_it_is(days: int | None, said: str, run: Run, tmp_path: Path) -> None:
    day = "" if days is None else str(datetime.now(tz=UTC).date() - timedelta(days=days))
    (tmp_path / "p.toml").write_text(f'[mine]\nlike = "gpt-4o"\nsource = "s"\ndate = "{day}"')

    shown = run("prices", "--prices", str(tmp_path / "p.toml"), "mine").stdout

    assert f"{day}{said}" in " ".join(shown.split())
