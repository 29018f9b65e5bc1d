import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from agora.cli.doctor import doctor
from agora.core.binding import shipped_bindings
from agora.core.prices import FAMILIES, sheet_for
from agora.gateway.editing import thinking as gateway_thinking
from agora.wrapping import live
from agora.wrapping.capped import Account, CannotAskError, Capped, StoppedError
from agora.wrapping.live import QUESTIONS, Report, ask, live_account
from harness.gateway.loopback import free_port, serving
from harness.gateway.signing_upstream import SigningUpstream
from harness.gateway.strict_upstream import Received
from harness.signing import Outcome, Signer

KEY = "sk-ant-made-up-0123456789"
HAIKU, FABLE, MYTHOS = "claude-haiku-5-5", "claude-fable-5-1", "claude-mythos-5-1"
PRICED = [m for m in shipped_bindings() if sheet_for(m).name not in FAMILIES]
USAGE = {"input_tokens": 700, "output_tokens": 60}


@dataclass
class Provider(SigningUpstream):
    """Signs, reports what became of thinking where it is asked to, and knows one key."""

    thinks: bool = True
    reports: bool = True
    usage: dict[str, Any] = field(default_factory=lambda: dict(USAGE))
    ends: Callable[[int], bool] = lambda number: number == 2
    """Which answers have no call."""
    stop_reason: str | None = None
    failure: tuple[int, str] | None = None
    """What every request is answered with from the fifth on."""

    async def _answer(self, request: Received, send: Any) -> None:
        head = [(b"content-type", b"application/json")]
        number = len(self.received)
        if request.header("x-api-key") != KEY:
            said = json.dumps({"error": {"message": f"no: {request.header('x-api-key')}"}})
            await self._say(request, send, 401, head, said.encode())
            return
        if self.failure and number > 4:
            status, text = self.failure
            head.append((b"request-id", b"req_5"))
            said = json.dumps({"error": {"message": text}})
            await self._say(request, send, status, head, said.encode())
            return
        asked = json.loads(request.body)
        betas = request.header("anthropic-beta") or ""
        signer = Signer(outcome=self.outcome)
        received = signer.receive(asked, betas=betas)
        problem = received.refusal or self._problem(asked, "anthropic")
        if problem:
            await self._refuse(request, send, "anthropic", problem)
            return
        name = asked["tools"][number % 2]["name"]
        given = {"crate": "a"} if name == "count" else {"balls": {"A": 1, "D": 2, "E": None}}
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}
        said_here: Any = {"type": "text", "text": "D."} if self.ends(number) else use
        thought = [signer.think(asked, f"thought {number}", betas=betas)] if self.thinks else []
        stop = "end_turn" if said_here is not use else "tool_use"
        answer = {
            "role": "assistant",
            "content": [*thought, said_here],
            "stop_reason": self.stop_reason or stop,
            "usage": self.usage,
        }
        if received.reports and self.reports:
            answer["input_transformations"] = received.transformations
        head.append((b"request-id", b"req_%d" % number))
        await self._say(request, send, 200, head, json.dumps(answer).encode())


def account(url: str, model: str = HAIKU, max_cents: float = 5) -> Account:
    return live_account(KEY, model=model, base_url=url, max_cents=max_cents)


def asked(provider: Provider, model: str = HAIKU, max_cents: float = 500) -> Report:
    with serving(provider) as url:
        return ask(account(url, model, max_cents))


def states(report: Report) -> dict[int, str]:
    return {one.number: one.state for one in report.answers}


def run(url: str, *options: str, key: str = KEY, stdin: str = "") -> Result:
    given = ["--live", "--base-url", url, *options]
    return CliRunner().invoke(doctor, given, env={"ANTHROPIC_API_KEY": key}, input=stdin)


ALL_AS_ASSUMED = dict.fromkeys(range(1, 9), "as assumed")


@pytest.mark.parametrize("model", PRICED)
def test_a_provider_that_does_what_is_assumed_answers_every_question_so(model: str) -> None:
    provider = Provider()

    report = asked(provider, model)

    assert states(report) == ALL_AS_ASSUMED
    assert report.exit_code == 0
    assert report.stopped == ""
    assert report.calls == len(provider.received) == 2 + len(QUESTIONS)


@pytest.mark.parametrize(
    ("model", "outcome", "differing"),
    [
        (FABLE, "error", set()),
        (FABLE, "drop", {4, 6}),
        (FABLE, "record", set()),
        (HAIKU, "error", {4, 6}),
        (HAIKU, "drop", set()),
        (HAIKU, "record", set()),
        (MYTHOS, "error", {4, 6}),
        (MYTHOS, "drop", {4, 6}),
        (MYTHOS, "record", set()),
    ],
)
def test_an_outcome_that_is_not_the_models_is_told_and_changes_no_other_answer(
    model: str, outcome: Outcome, differing: set[int]
) -> None:
    report = asked(Provider(outcome=outcome), model)

    assert {number for number, state in states(report).items() if state == "differs"} == differing
    assert "open" not in states(report).values()
    assert report.exit_code == (1 if differing else 0)
    seen = {one.number: one.seen for one in report.answers}
    words = {"error": "refused (A22)", "drop": "block dropped", "record": "only recorded"}
    assert words[outcome] in seen[4]
    assert words[outcome] in seen[6]


def test_every_variant_is_what_its_question_says() -> None:
    provider = Provider(outcome="drop")
    asked(provider)

    bodies = [json.loads(one.body) for one in provider.received]
    unchanged, bare, shorter, altered, moved, added, dropping, later = bodies[2:]
    assert unchanged["messages"][:3] == bodies[1]["messages"]
    for stripped in (bare, shorter):
        assert "signature" not in json.dumps(stripped)
    assert len(shorter["messages"]) == len(bare["messages"]) - 2
    differing = [a != b for a, b in zip(altered["messages"], unchanged["messages"], strict=True)]
    assert differing == [False, False, True, False, False]
    assert json.dumps(moved).count("cache_control") == 1
    assert "cache_control" in json.dumps(moved["messages"][2])
    assert "cache_control" in json.dumps(unchanged["messages"][0])
    assert json.dumps(added).count('"signature"') == 3
    assert dropping["messages"] == altered["messages"]
    assert dropping["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert later["messages"][: len(shorter["messages"])] == shorter["messages"]
    assert json.dumps(later).count('"signature"') == 1


def test_the_block_that_was_dropped_is_listed_with_its_place_and_the_request() -> None:
    report = asked(Provider(outcome="error"), FABLE)

    refused, dropped = report.answers[3], report.answers[6]
    assert (refused.status, refused.rule, refused.request_id) == (400, "A22", "req_refused")
    assert "bound to a different conversation" in refused.said
    assert dropped.transformations is not None
    assert [one["path"] for one in dropped.transformations] == ["messages.3.content.0"]
    assert report.played_request_ids == ("req_1", "req_2")


class DropsAll(Provider):
    async def _say(
        self, request: Received, send: Any, status: int, headers: Any, body: bytes
    ) -> None:
        said = json.loads(body)
        if said.get("input_transformations"):
            more = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "?"}
            said["input_transformations"].append(more)
        await super()._say(request, send, status, headers, json.dumps(said).encode())


def test_a_provider_that_drops_more_than_the_block_behind_the_change_differs() -> None:
    report = asked(DropsAll(outcome="drop"))

    assert states(report) == {**ALL_AS_ASSUMED, 4: "differs", 7: "differs"}
    assert "not only the one behind the change" in report.answers[3].seen


def test_what_is_not_reported_stays_open() -> None:
    report = asked(Provider(reports=False))

    assert states(report) == {
        **dict.fromkeys(range(1, 9), "open"),
        2: "as assumed",
        3: "as assumed",
    }
    assert report.exit_code == 2


class RefusesNoThinking(Provider):
    def _problem(self, asked: Any, format: str) -> str:
        lost = len(self.received) > 1 and "signature" not in json.dumps(asked["messages"])
        return "messages: something that nobody has read yet" if lost else ""


def test_a_refusal_where_none_is_assumed_differs_and_leaves_open_what_goes_on_from_it() -> None:
    report = asked(RefusesNoThinking())

    expected = {**ALL_AS_ASSUMED, 2: "differs", 3: "differs", 6: "open", 8: "open"}
    assert states(report) == expected
    assert report.answers[1].seen == "refused (no rule that AGORA knows)"
    assert report.answers[1].said == "messages: something that nobody has read yet"


def test_a_model_that_does_not_think_leaves_all_open_after_four_calls() -> None:
    provider = Provider(thinks=False)

    report = asked(provider)

    assert set(states(report).values()) == {"open"}
    assert "thought in 0 of 4 answers" in report.stopped
    assert len(provider.received) == 4
    assert report.exit_code == 2


def test_an_answer_that_was_cut_off_stops_the_asking() -> None:
    report = asked(Provider(stop_reason="max_tokens"))

    assert "cut off" in report.stopped
    assert report.calls == 1


def test_a_conversation_that_is_refused_stops_the_asking() -> None:
    provider = Provider()
    provider._problem = lambda *_: "thinking: adaptive is unknown"  # type: ignore[method-assign]

    report = asked(provider)

    assert report.stopped.endswith("itself was refused: thinking: adaptive is unknown")
    assert report.exit_code == 2


def test_a_failure_halfway_keeps_the_answers_so_far() -> None:
    report = asked(Provider(failure=(529, "Overloaded")))

    assert list(states(report).values()) == ["as assumed"] * 2 + ["open"] * 6
    assert report.stopped.startswith("the provider answers 529 (Overloaded; request req_5)")


def test_accounts_are_not_named_and_nothing_can_steer_the_terminal() -> None:
    text = (
        "\x1b[2J organization 01234567-89ab-cdef-0123-456789abcdef, org_0123456789, " + "x" * 9999
    )

    said = asked(Provider(failure=(500, text))).stopped

    assert "[2J organization [id], [id], xxx" in said
    assert "\x1b" not in said
    assert len(said) < 600


# --- the cap


def test_at_no_cents_no_call_is_made() -> None:
    provider = Provider()
    with serving(provider) as url:
        result = run(url, "--max-cents", "0", "--yes")

    assert provider.received == []
    assert result.exit_code == 2
    assert "0.00 of 0 are spent; --max-cents raises" in " ".join(result.stdout.split())


def test_a_call_without_a_usage_stays_counted_at_its_worst() -> None:
    frugal = asked(Provider(), FABLE)
    silent = asked(Provider(usage={"output_tokens": 1}), FABLE)

    assert silent.calls == frugal.calls
    assert silent.cents > 3 * frugal.cents
    dear = asked(Provider(usage={}), FABLE, max_cents=silent.cents / 2)
    assert 0 < dear.calls < silent.calls
    assert dear.cents <= dear.max_cents
    assert "may cost" in dear.stopped


def worst(provider: Provider, model: str) -> float:
    """Return what the received requests would cost at list price if every byte were a token."""
    sheet = sheet_for(model)
    bodies = [one.body for one in provider.received]
    return 100 * sum(
        sheet.dollars(written=len(body), output=json.loads(body)["max_tokens"]) for body in bodies
    )


@pytest.mark.parametrize("cents", [0.01, 0.3, 1, 4, 40])
@pytest.mark.parametrize("model", PRICED)
def test_calls_that_are_billed_at_their_worst_never_pass_the_cap(model: str, cents: float) -> None:
    provider = Provider(usage={})

    report = asked(provider, model, cents)

    assert worst(provider, model) <= report.cents + 1e-4 <= cents + 2e-4


@given(
    st.floats(0, 50),
    st.lists(st.tuples(st.integers(0, 60_000), st.integers(1, 4_000), st.booleans()), max_size=12),
)
def test_the_cap_holds_for_any_calls(cents: float, calls: list[tuple[int, int, bool]]) -> None:
    line = Capped(Account(key=KEY, model=FABLE, base_url="http://127.0.0.1:1", max_cents=cents))
    sheet, spent = sheet_for(FABLE), 0.0
    for size, max_tokens, refused in calls:
        try:
            counted = line._count_worst(b"x" * size, max_tokens)
        except StoppedError:
            continue
        billed = 0.0 if refused else 100 * sheet.dollars(written=size, output=max_tokens)
        assert billed <= counted
        spent += billed
    assert spent <= line.cents <= cents


def test_a_cap_that_is_no_number_lets_nothing_through() -> None:
    provider = Provider()

    assert asked(provider, max_cents=float("nan")).calls == 0
    assert provider.received == []


# --- the key and the address


def test_a_wrong_key_is_said_and_never_shown() -> None:
    provider = Provider()
    with serving(provider) as url:
        for_people = run(url, "--yes", key="sk-ant-wrong-one")
        for_machines = run(url, "--yes", "--json", key="sk-ant-wrong-one")

    assert len(provider.received) == 2
    for result in (for_people, for_machines):
        assert result.exit_code == 2
        assert "sk-ant-wrong-one" not in result.output
        assert "answers 401 (no: [key])" in result.output
        assert "ANTHROPIC_API_KEY" in result.output


class Echoes(Provider):
    async def _say(
        self, request: Received, send: Any, status: int, headers: Any, body: bytes
    ) -> None:
        said = json.loads(body)
        if said.get("input_transformations"):
            more = {"type": KEY, "path": KEY, "reason": KEY}
            said["input_transformations"].append(more)
        own = [one for one in headers if one[0] != b"request-id"]
        named = [*own, (b"request-id", KEY.encode())]
        await super()._say(request, send, status, named, json.dumps(said).encode())


def test_a_provider_that_says_the_key_back_does_not_get_it_into_the_report() -> None:
    with serving(Echoes()) as url:
        result = run(url, "--yes", "--json")

    assert result.stdout.count("[key]") > 3
    assert KEY not in result.output


class Garbles(Provider):
    async def _answer(self, request: Received, send: Any) -> None:
        await self._say(request, send, 200, [], b"<html>Log in first</html>")


def test_an_answer_that_is_no_json_stops_the_asking() -> None:
    assert asked(Garbles()).stopped.startswith("the provider answers 200: check --base-url")


def test_without_a_network_it_says_so() -> None:
    result = run(f"http://127.0.0.1:{free_port()}", "--yes")

    assert result.exit_code == 2
    assert "no answer from http://127.0.0.1" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"key": " "}, "is not set"),
        ({"key": "sk-ant-\nx"}, "characters that no key has"),
        ({"key": "sk-änt"}, "characters that no key has"),
        ({"model": "gpt-5"}, "not known to bind"),
        ({"model": "claude-sonnet-4-5"}, "not known to bind"),
        ({"model": "claude-opus-9"}, "no list price"),
        ({"base_url": "http://api.anthropic.com"}, "https://"),
        ({"base_url": "https://"}, "a host"),
        ({"base_url": "https://me:secret@host"}, "a host"),
        ({"base_url": "https://host:port"}, "no address"),
        ({"base_url": "file:///etc/hosts"}, "https://"),
    ],
)
def test_what_cannot_be_asked_with_is_refused_before_any_call(
    changes: dict[str, str], says: str
) -> None:
    given = {"key": KEY, "model": HAIKU, "base_url": "https://host/v1/", **changes}

    with pytest.raises(CannotAskError, match=says) as error:
        live_account(given.pop("key"), max_cents=5, **given)

    assert KEY not in str(error.value)


def test_an_account_does_not_show_its_key() -> None:
    assert KEY not in repr(account("https://host"))
    assert account("https://host/v1/").base_url == "https://host"


@dataclass
class Redirects(Provider):
    to: str = ""

    async def _answer(self, request: Received, send: Any) -> None:
        await self._say(request, send, 302, [(b"location", self.to.encode())], b"{}")


def test_the_key_follows_no_redirect() -> None:
    elsewhere = Provider()
    with serving(elsewhere) as url:
        report = asked(Redirects(to=url))

    assert elsewhere.received == []
    assert "answers 302" in report.stopped


# --- the command


def test_the_report_for_an_issue_is_json_without_the_key() -> None:
    provider = Provider()
    with serving(provider) as url:
        result = run(url, "--yes", "--json")

    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [one["number"] for one in report["answers"]] == list(range(1, 9))
    assert report["answers"][0]["request_id"] == "req_3"
    assert report["assumed_failed_check"] == "drop"
    assert KEY not in result.output
    assert provider.received[0].header("anthropic-beta") == live.BETA


def test_people_read_a_table_and_what_a_difference_means() -> None:
    with serving(Provider(outcome="error")) as url:
        result = run(url, "--yes")

    said = " ".join(result.stdout.split())
    assert result.exit_code == 1
    assert "4 differs. This is what your account does" in said
    assert "The provider says: messages.3.content.0: Invalid `signature`" in said
    assert "Request req_refused" in said
    assert "cents at list prices" in said
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_nothing_is_sent_unless_somebody_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider()
    with serving(provider) as url:
        nobody = run(url)
        monkeypatch.setattr("agora.cli.doctor._has_terminal", lambda: True)
        no = run(url, stdin="n\n")
        before = len(provider.received)
        yes = run(url, stdin="y\n")

    assert nobody.exit_code == no.exit_code == 2
    assert "--yes" in nobody.stderr
    assert before == 0
    assert "nothing of yours" in no.stderr
    assert yes.exit_code == 0


@pytest.mark.parametrize("option", ["--ask", "--settings=x"])
def test_options_of_the_other_checks_are_no_part_of_live(option: str) -> None:
    assert "cannot be used with --live" in run("https://host", option).stderr


def test_without_a_key_the_command_says_where_to_put_it() -> None:
    result = run("https://host", "--yes", key="")

    assert result.exit_code == 2
    assert "ANTHROPIC_API_KEY is not set" in result.stderr


def test_options_of_live_alone_are_not_ignored() -> None:
    result = CliRunner().invoke(doctor, ["--max-cents", "3"])

    assert result.exit_code == 2
    assert "--max-cents needs --live" in result.stderr


def test_the_beta_is_the_one_that_the_gateway_sends() -> None:
    assert live.BETA.encode() == gateway_thinking.BETA


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda of: st.lists(of, max_size=2) | st.dictionaries(st.text(max_size=1), of, max_size=2),
        max_leaves=4,
    )
)
def test_a_tool_answers_whatever_it_is_asked(given: Any) -> None:
    for name in ("count", "weigh", None):
        assert live._result({"name": name, "input": given})
        assert live._result({"name": name, "input": {"crate": given, "balls": given}})
