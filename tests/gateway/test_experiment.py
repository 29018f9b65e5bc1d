"""An experiment in the gateway: arms for life, both counted alike, stopped without a restart."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

from agora.experiment.assignment import Arm, Draw, arm_of
from agora.experiment.openings import is_first_call, opening
from agora.experiment.store import read_account, resume, stop
from agora.gateway.app import App, make_app
from agora.gateway.config import Compression, Config, ConfigError, Experiment, Tenants, parse_config
from agora.gateway.forwarding.arms import NoSecretError, trial_for
from agora.gateway.reload import reload
from agora.gateway.routing.tenants import tenant_of
from agora.gateway.watching.metrics import Meter
from harness.gateway.histories import messages
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

SECRET = "a secret that replicas share"  # noqa: S105
THREE_LINES = '[[upstreams]]\nbase_url = "https://a.test"\nformats = ["openai"]\n'
PATH = "/v1/messages"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGORA_TENANT_SECRET", SECRET)


@pytest.fixture
def upstream() -> Iterator[tuple[StrictUpstream, str]]:
    app = StrictUpstream()
    with serving(app) as url:
        yield app, url


def configured(up: str, folder: Path, **changes: Any) -> Config:
    experiment = Experiment(
        folder=str(folder), share=0.5, **{"stop_when": ("errors > +0.02",), **changes}
    )
    compression = Compression(min_tokens=200, mode="experiment")
    return config_for(up, compression=compression, experiment=experiment)


def calls(name: str, steps: int = 6, size: int = 1_500) -> list[bytes]:
    """Return the calls of one agent, one step more each time, the first without any."""
    body = messages(steps, size)
    turns = [{"role": "user", "content": f"{name}: find the part"}, *body["messages"][1:]]
    return [json.dumps({**body, "messages": turns[: 1 + 2 * n]}).encode() for n in range(steps)]


def post(url: str, body: bytes, **headers: str) -> tuple[int, dict[str, str]]:
    told = {"content-type": "application/json", "x-api-key": "sk-1", **headers}
    asked = urllib.request.Request(url, body, told)  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310
            answer.read()
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}
    except urllib.error.HTTPError as error:
        return error.code, {"said": error.read().decode()}


def settled(app: App) -> None:
    until = time.monotonic() + 20
    while (app.open_requests or app.forwarder.undecided) and time.monotonic() < until:
        time.sleep(0.005)
    assert app.forwarder.trial is not None
    app.forwarder.trial.tick()


def test_conversations_go_on_edited_or_as_they_came_and_stay_so(
    tmp_path: Path, upstream: tuple[StrictUpstream, str]
) -> None:
    received, up = upstream
    arms: dict[str, set[str]] = {}
    with gateway(configured(up, tmp_path)) as (url, app):
        for name in "abcdefgh":
            for body in calls(name, steps=40, size=2_500):
                status, told = post(url + PATH, body)
                assert status == 200
                conversation_id = told["x-agora-conversation"]
                arm = arm_of(conversation_id, 0.5)
                arms.setdefault(name, set()).add(conversation_id)
                if arm is Arm.EVERYTHING:
                    assert received.received[-1].body == body
                    assert told["x-agora-untouched"] in ("shadow", "below_threshold")
        settled(app)
        told_metrics = app.forwarder.meter.snapshot()
    account = read_account(tmp_path)

    assert all(len(each) == 1 for each in arms.values())
    drawn = {arm_of(one, 0.5) for each in arms.values() for one in each}
    assert drawn == {Arm.AGORA, Arm.EVERYTHING}
    assert told_metrics.total("agora_tokens_removed_total") > 0
    assert sum(told_metrics.by("agora_experiment_calls_total", "arm").values()) == 8 * 40
    assert len(account.open) == 8
    for conversation in account.open.values():
        assert conversation.calls == conversation.answered == 40
        assert conversation.born
        assert conversation.affected
        assert conversation.dollars > 0
        assert conversation.prompt_tokens > 0
        assert conversation.waited_ms > 0
        assert sum(conversation.elided.values()) > 0


def test_what_is_stored_has_no_text_of_a_prompt_and_no_key(
    tmp_path: Path, upstream: tuple[StrictUpstream, str]
) -> None:
    _, up = upstream
    planted = "WhiteRabbit-7c1f"
    with gateway(configured(up, tmp_path, idle_minutes=0.01)) as (url, app):
        for body in calls(planted):
            text = body.replace(b'"model": "', b'"user": "%b", "model": "' % planted.encode())
            post(
                url + PATH,
                text,
                **{
                    "x-api-key": f"sk-{planted}",
                    "user-agent": planted,
                    "x-agora-conversation": planted,
                },
            )
        post(url + PATH, json.dumps({"model": f"sk-{planted}", "messages": []}).encode())
        post(
            f"{url}/v1/agora/outcome", json.dumps({"conversation": planted, "outcome": 1}).encode()
        )
        settled(app)
        stop(tmp_path, "looked at")
        time.sleep(0.7)
        settled(app)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]

    assert {"tally.json", "stopped.json"} <= {file.name for file in files}
    assert read_account(tmp_path).tally.conversations == 1
    for file in files:
        said = file.read_bytes()
        for secret in (planted, "sk-", SECRET, "find the part", "part_", "ID-"):
            assert secret.encode() not in said, (file.name, secret)
        assert file.stat().st_mode & 0o077 == 0


def test_an_arm_that_is_stopped_goes_on_as_it_came_without_a_restart(
    tmp_path: Path, upstream: tuple[StrictUpstream, str]
) -> None:
    _, up = upstream
    with gateway(configured(up, tmp_path)) as (url, app):
        assert app.forwarder.trial is not None
        stop(tmp_path, "calls > +5%, after 400 conversations")
        app.forwarder.trial.tick()
        _, told = post(url + PATH, calls("a")[-1])
        assert told["x-agora-untouched"] == "experiment_stopped"
        assert "x-agora-conversation" not in told
        assert app.forwarder.meter.snapshot().total("agora_experiment_stopped") == 1
        resume(tmp_path)
        app.forwarder.trial.tick()
        _, told = post(url + PATH, calls("a")[-1])
        assert "x-agora-conversation" in told
        assert app.forwarder.meter.snapshot().total("agora_experiment_stopped") == 0


def test_those_who_do_not_take_part_go_on_as_they_came(
    tmp_path: Path, upstream: tuple[StrictUpstream, str]
) -> None:
    _, up = upstream
    for changes in ({"models": ("other-*",)}, {"tenants": ("nobody",)}):
        with gateway(configured(up, tmp_path, **changes)) as (url, _):
            assert post(url + PATH, calls("a")[-1])[1]["x-agora-untouched"] == "experiment_waiting"
    with gateway(configured(up, tmp_path)) as (url, _):
        bare = json.dumps({"model": "m", "messages": []}).encode()
        assert "x-agora-conversation" not in post(url + PATH, bare)[1]


def test_an_outcome_is_posted_or_comes_as_a_header(
    tmp_path: Path, upstream: tuple[StrictUpstream, str]
) -> None:
    _, up = upstream
    with gateway(configured(up, tmp_path)) as (url, app):
        first, second = calls("a")[:2]
        own = {"x-agora-conversation": "mine"}
        conversation_id = post(url + PATH, first)[1]["x-agora-conversation"]
        post(url + PATH, second, **{"x-agora-outcome": "0.5"})
        named = post(url + PATH, first, **own)[1]["x-agora-conversation"]
        told = json.dumps({"conversation": "mine", "outcome": 1}).encode()
        assert post(f"{url}/v1/agora/outcome", told)[0] == 202
        for wrong in (b"{", b"[]", b'{"conversation": 1, "outcome": 1}', b'{"conversation": "a"}'):
            status, answer = post(f"{url}/v1/agora/outcome", wrong)
            assert status == 400
            assert "must be like" in answer["said"]
        settled(app)
    account = read_account(tmp_path)

    assert account.open[conversation_id].outcome == 0.5
    assert account.open[named].outcome == 1.0


def test_no_outcome_is_taken_where_no_experiment_runs(upstream: tuple[StrictUpstream, str]) -> None:
    with gateway(config_for(upstream[1])) as (url, _):
        body = json.dumps({"conversation": "mine", "outcome": 1}).encode()
        assert post(f"{url}/v1/agora/outcome", body)[0] == 404


def test_a_restart_draws_the_same_arms_and_goes_on_counting(
    tmp_path: Path, upstream: tuple[StrictUpstream, str]
) -> None:
    _, up = upstream
    seen = []
    for half in (slice(0, 3), slice(3, 6)):
        with gateway(configured(up, tmp_path)) as (url, app):
            for name in "abcd":
                answers = [post(url + PATH, body)[1] for body in calls(name)[half]]
                seen += [(name, told["x-agora-conversation"]) for told in answers]
            settled(app)

    assert len(set(seen)) == 4
    account = read_account(tmp_path)
    assert [each.calls for each in account.open.values()] == [6, 6, 6, 6]
    assert all(each.born for each in account.open.values())


def test_a_reload_changes_the_share_and_the_experiment_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        before = configured("http://127.0.0.1:9", tmp_path)
        app = make_app(before)
        await app.start()
        running = app.forwarder.trial
        assert running is not None
        changed = replace(before, experiment=replace(before.experiment, share=0.25))
        reloaded = await reload(app, changed)

        assert reloaded.changed == ("experiment.share",)
        assert app.forwarder.trial is running
        assert running.terms.share == 0.25
        await reload(app, replace(changed, compression=Compression(min_tokens=200)))
        assert app.forwarder.trial is None
        running.close()
        await app.stop()

    asyncio.run(run())


def test_without_a_secret_that_all_share_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGORA_TENANT_SECRET")
    with pytest.raises(NoSecretError, match="AGORA_TENANT_SECRET is not set"):
        trial_for(configured("http://127.0.0.1:9", tmp_path), b"drawn", Meter())


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("", "experiment.folder is missing"),
        ('folder = "x"\nstop_when = ["cals > +5%"]', "did you mean calls?"),
        ('folder = "x"\nshare = 0.6', "experiment.share is 0.6"),
        ('folder = "x"\nheader = "a b"', "not a valid header name"),
    ],
)
def test_a_mistake_in_the_settings_is_told_with_its_place(lines: str, sentence: str) -> None:
    text = f'{THREE_LINES}[compression]\nmode = "experiment"\n[experiment]\n{lines}'
    with pytest.raises(ConfigError) as caught:
        parse_config(text)

    assert sentence in str(caught.value)


def test_an_experiment_is_said_at_the_start() -> None:
    text = f'{THREE_LINES}[compression]\nmode = "experiment"\n[experiment]\nfolder = "x"\n'
    assert any("5% of the conversations" in note for note in parse_config(text).notes())


said = st.lists(
    st.tuples(st.sampled_from(["system", "developer", "user"]), st.text(max_size=30)), max_size=4
)
later = st.lists(
    st.tuples(st.sampled_from(["assistant", "user", "tool"]), st.text(max_size=30)), max_size=4
)


@given(
    said,
    later,
    st.sampled_from(["messages", "input", "contents"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 40, 9_000]),
)
def test_what_a_conversation_is_known_by_stays_while_it_grows(
    first: list[tuple[str, str]],
    more: list[tuple[str, str]],
    field: str,
    in_blocks: bool,
    role_first: bool,
    times: int,
) -> None:
    def message(role: str, text: str, mark: bool = False) -> dict[str, Any]:
        block = {"type": "text", "text": text, **({"cache_control": {"a": 1}} if mark else {})}
        name = "parts" if field == "contents" else "content"
        content = {name: [block] if in_blocks else text}
        return {"role": role, **content} if role_first else {**content, "role": role}

    assume(any(role == "user" for role, _ in first))
    first = [(role, text * (times if role == "user" else 1)) for role, text in first]
    begun = [message(*each, mark=True) for each in first]
    whole = [message(*each) for each in first]
    spoke = "model" if field == "contents" else "assistant"
    whole += [message(spoke, "I look"), *(message(*each) for each in more)]
    one = json.dumps({"model": "m", field: begun}).encode()
    other = json.dumps({field: whole, "model": "m"}).encode()

    assert opening(one, field) == opening(other, field)
    assert is_first_call(one, field)
    assert not is_first_call(other, field)
    wanted = "\0".join(text for role, text in first if role == "user")
    if len(one) < 4_000:
        assert opening(one, field) == wanted.encode("utf-8", "surrogatepass")


def test_a_long_system_text_does_not_hide_the_user() -> None:
    def body(said: str, name: str) -> bytes:
        system = {"role": "system", "content": 'Say "user" or \n"role": "user". ' * 5_000}
        user = {"role": "user", "content": f"{said} " * 10_000}
        turns = [system, user] if name == "role" else [user]
        return json.dumps({"messages": turns}).encode()

    for name in ("role", "no system"):
        assert opening(body("this", name), "messages") != opening(body("that", name), "messages")
        assert 7_000 < len(opening(body("this", name), "messages")) <= 8_192


def test_what_cannot_be_read_has_no_opening_or_the_bytes_it_has() -> None:
    assert opening(b"", "messages") == b""
    assert opening(b'{"messages": [1, 2', "messages") == b""
    assert opening(b'{"messages": []}', "messages") == b""
    assert opening(b'{"messages": [{"role": "user"', "messages") == b'{"role": "user"'
    assert opening(b'{"input": "do it"}', "input") == b"do it"
    assert is_first_call(b'{"input": "do it", "model": "m"}', "input")
    called = b'{"input": [{"type": "function_call"}], "model": "m"}'
    assert not is_first_call(called, "input")


def test_draws_of_the_gateway_are_those_of_the_library(
    tmp_path: Path, upstream: tuple[StrictUpstream, str]
) -> None:
    with gateway(configured(upstream[1], tmp_path)) as (url, _):
        told = post(url + PATH, calls("a")[0], **{"x-agora-conversation": "mine"})[1]
        tenant = tenant_of([(b"x-api-key", b"sk-1")], Tenants(), SECRET.encode())
        wanted = Draw("experiment", SECRET.encode()).id_of(tenant, b"mine")
        assert told["x-agora-conversation"] == wanted
