import http.server
import json
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from agora.cli.group import agora
from agora.cli.price_list import dated, lines
from agora.cli.prices import Measured, Timed, measured
from agora.core.prices import PriceSheet, load_sheets, shipped_sheets


class Server:
    """Takes so many seconds for each token, fewer for those of a prompt that it has seen."""

    def __init__(self, cold: float, warm: float) -> None:
        self.cold, self.warm = cold, warm
        self.seen: set[str] = set()

    def time(self, prompt: str) -> Timed:
        tokens = len(prompt.split())
        each = self.warm if prompt in self.seen else self.cold
        self.seen.add(prompt)
        return Timed(tokens, 0.05 + tokens * each)


def test_what_was_put_in_is_found_again() -> None:
    found = measured(Server(0.0005, 0.00001).time, words=2_000, repeats=2, seed=1)

    assert found.seconds_per_token == pytest.approx(0.0005)
    assert found.read == pytest.approx(0.02)


def test_one_slow_prompt_changes_little() -> None:
    server, calls = Server(0.0005, 0.00001), 0

    def time(prompt: str) -> Timed:
        nonlocal calls
        calls += 1
        timed = server.time(prompt)
        return Timed(timed.tokens, timed.seconds + 3.0) if calls == 4 else timed

    found = measured(time, words=2_000, repeats=3, seed=1)

    assert found.seconds_per_token == pytest.approx(0.0005, rel=0.2)


def test_a_server_that_takes_the_same_for_all_says_nothing() -> None:
    with pytest.raises(ValueError, match="took no longer"):
        measured(lambda p: Timed(len(p.split()), 0.1), words=800, repeats=1)
    with pytest.raises(ValueError, match="equally long"):
        measured(lambda _: Timed(7, 0.1), words=800, repeats=1)


def test_the_sheet_is_one_that_the_gateway_reads() -> None:
    found = measured(Server(0.0005, 0.00001).time, words=2_000, repeats=1, seed=1)
    table = tomllib.loads(found.sheet("house"))["prices"]["house"]

    assert table["like"] == "self-hosted-cached"
    like = 'own = {like = "self-hosted", read = 0.02, ttl_seconds = 86400}\n'
    sheet = load_sheets(like + f'house = {{like = "own", read = {table["read"]}}}')["house"]
    assert sheet.caches


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0717941, "71790"), (0.0000412349, "41.23"), (0.0005, "500")]
)
def test_a_slow_servers_sheet_has_no_exponent(seconds: float, said: str) -> None:
    found = Measured((), (), seconds_per_token=seconds, warm_seconds_per_token=0.0)

    assert f"prefill_seconds_per_million = {said}\n" in found.sheet("house")


@contextmanager
def answering() -> Iterator[str]:
    server = Server(0.0, 0.0)

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say({"data": [{"id": "tiny"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._say({"usage": {"prompt_tokens": server.time(asked["prompt"]).tokens}})

        def _say(self, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http_server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http_server.server_port}"
    finally:
        http_server.shutdown()
        http_server.server_close()


def test_the_command_says_what_is_wrong() -> None:
    nobody = CliRunner().invoke(agora, ["prices", "measure", "http://127.0.0.1:9"])
    assert nobody.exit_code == 1
    assert "nothing was measured" in nobody.output
    assert CliRunner().invoke(agora, ["prices", "measure", "127.0.0.1:9"]).exit_code == 2


def test_the_command_asks_a_server_by_its_own_address_or_its_v1() -> None:
    with answering() as url:
        found = CliRunner().invoke(
            agora, ["prices", "measure", f"{url}/v1/", "--words", "64", "--repeats", "1"]
        )
    # It takes no time for anything here: either outcome has looked at every answer.
    assert "[prices.house]" in found.output or "took no longer" in found.output


def test_the_figures_are_written_as_json_in_place_of_the_sheet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = measured(Server(0.001, 0.00002).time, words=800, repeats=1, seed=1)
    monkeypatch.setattr("agora.cli.prices.measured", lambda *_, **__: taken)

    found = CliRunner().invoke(
        agora, ["prices", "measure", "http://127.0.0.1:9", "--model", "tiny", "--json", "-"]
    )
    figures = json.loads(found.stdout)

    assert figures["model"] == "tiny"
    assert figures["seconds_per_token"] == taken.seconds_per_token
    assert len(figures["cold"]) == len(figures["warm"]) == 4
    assert "[prices.house]" in figures["sheet"]


def listed(*arguments: str) -> str:
    found = CliRunner().invoke(agora, ["prices", *arguments])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_every_sheet_is_listed_with_its_source_its_date_and_its_age() -> None:
    said = listed()

    assert said == listed("list")
    words = " ".join(said.split())
    for name, sheet in shipped_sheets().items():
        assert f"\n{name} " in said
        assert " ".join(sheet.source.split()) in words
        assert " ".join(sheet.note.split()) in words
    assert "2026-11-17, " in said
    assert "above 100,000 tokens: input ×5, output ×5" in said
    assert "1.25, 1h 2 " in said
    assert "1.25, 12h 2.5 " in said
    assert max(map(len, said.splitlines())) <= 80


def test_the_sheet_of_each_named_model_is_listed_and_one_that_is_not_its_own_is_named() -> None:
    found = CliRunner().invoke(agora, ["prices", "list", "openrouter/openai/gpt-5.5", "gpt-99"])

    assert "sticky routing" in found.stdout
    assert "10 min" in found.stdout
    assert "gpt-99 has no sheet of its own: priced as gpt." in found.stderr


def test_sheets_of_ones_own_are_listed_and_one_that_is_wrong_is_said_to_be(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[mine]\nlike = "gpt-4o"\nsource = "my contract"\ndate = "2020-01-01"')

    said = listed("list", "--prices", str(file), "mine")
    assert "my contract" in said
    assert "days old: prices may have changed" in said
    assert "1 of 1 sheets are more than 90 days old" in said
    assert "\nmine " in listed("list", "--prices", str(file))
    file.write_text("[mine]\nread = 0.1")
    wrong = CliRunner().invoke(agora, ["prices", "list", "--prices", str(file)])
    assert wrong.exit_code == 1
    assert "'mine' lacks input, write, output" in wrong.output


def test_the_list_is_written_as_json_with_ages() -> None:
    [found] = json.loads(listed("list", "claude-haiku-5-5", "--json", "-"))

    assert found["tiers"] == [{"above": 100_000, "input": 5.0, "output": 5.0}]
    assert found["lifetimes"] == [{"ttl": "1h", "seconds": 3600.0, "write": 2.0}]
    assert found["age_days"] == (datetime.now(tz=UTC).date() - date(2026, 11, 17)).days


@pytest.mark.parametrize(
    ("day", "said"),
    [
        ("2026-11-17", "2026-11-17, today"),
        ("2026-11-16", "2026-11-16, 1 day old"),
        ("2026-08-19", "2026-08-19, 90 days old"),
        ("2026-08-18", "2026-08-18, 91 days old: prices may have changed"),
        ("2026-11-18", "2026-11-18, which is in the future: is this machine's clock right?"),
        ("", "no date is given: prices may have changed"),
    ],
)
def test_a_sheets_age_is_said_and_from_90_days_on_what_it_means(day: str, said: str) -> None:
    sheet = PriceSheet(name="x", input=1, read=1, write=1, output=1, date=day)

    assert dated(sheet, date(2026, 11, 17)) == said
    assert "no source is given" in list(lines([sheet], date(2026, 11, 17)))
