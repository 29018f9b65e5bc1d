import io
import json
import logging
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.gateway.config import Log
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.logs import ToldError, configure, log_exchange, told_headers
from agora.gateway.watching.redaction import REDACTED, redacted

FEW = settings(deadline=None, max_examples=40)
CANARY = "sk-canary-7f3a9c1e5b2d8f60"
DEBUG = Log(level="debug")


@pytest.fixture
def sink() -> Iterator[io.StringIO]:
    """Everything this process logs, as a gateway would write it."""
    root = logging.getLogger()
    access = logging.getLogger("uvicorn.access")
    before = root.handlers[:], root.level, access.propagate, access.handlers[:]
    stream = io.StringIO()
    configure(DEBUG, stream)
    yield stream
    root.handlers[:], root.level, access.propagate, access.handlers[:] = before


def lines(sink: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def test_a_request_is_one_line_of_json_with_what_an_operator_asks_for(sink: io.StringIO) -> None:
    log_exchange(
        Exchange(
            route="chat",
            tenant="t-1",
            upstream="openai",
            model="gpt-5",
            status=200,
            rung=0,
            reason="compressed",
            tokens_in=9_000,
            tokens_out=3_000,
            read=2_900,
            dollars_saved=0.00123456789,
            held_ms=4.56789,
            started_ns=1_000_000_000,
            ended_ns=3_500_000_000,
            headers=(("User-Agent", "agent/1"), ("Authorization", f"Bearer {CANARY}")),
        ),
        DEBUG,
    )
    [line] = lines(sink)

    assert line["level"] == "info"
    assert line["message"] == "request"
    assert line["route"] == "chat"
    assert line["model"] == "gpt-5"
    assert line["tokens_in"] == 9_000
    assert line["rung"] == 0
    assert line["dollars_saved"] == 0.001235
    assert line["held_ms"] == 4.568
    assert line["total_ms"] == 2_500.0
    assert line["headers"] == {"user-agent": "agent/1"}


def test_a_request_that_got_no_answer_is_a_warning(sink: io.StringIO) -> None:
    for status in (0, 503, 404):
        log_exchange(Exchange(route="chat", tenant="t-1", status=status), DEBUG)

    assert [line["level"] for line in lines(sink)] == ["warning", "warning", "info"]


def test_requests_get_no_line_where_none_are_wanted(sink: io.StringIO) -> None:
    log_exchange(Exchange(route="chat", tenant="t-1", status=200), Log(requests=False))

    assert lines(sink) == []


def test_a_model_is_told_only_if_the_upstream_took_it() -> None:
    def said(status: int) -> str:
        return Exchange(route="chat", tenant="t", model=CANARY, status=status).logged_model

    assert [said(status) for status in (0, 400, 404, 500)] == [""] * 4
    assert Exchange(route="chat", tenant="t", model="gpt-5", status=200).logged_model == "gpt-5"


@FEW
@given(
    name=st.sampled_from(["authorization", "x-api-key", "cookie", "x-custom", "User-Agent"]),
    before=st.text(max_size=20),
    after=st.text(max_size=20),
)
def test_no_header_tells_a_key_whatever_is_around_it(name: str, before: str, after: str) -> None:
    said = told_headers([(name, f"{before}{CANARY}{after}")], Log())

    assert CANARY not in json.dumps(said)


def test_an_id_is_told_only_if_it_looks_like_one() -> None:
    def said(value: str) -> str:
        return told_headers([("X-Request-Id", value)], Log())["x-request-id"]

    assert said("7f3a9c1e-5b2d-8f60-aaaa-bbbbccccdddd") == "7f3a9c1e-5b2d-8f60-aaaa-bbbbccccdddd"
    assert said("a b") == said("x" * 200) == said(CANARY) == REDACTED


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-AbCdEfGh123456789",
        "sk-ant-api03-AbCdEfGh123456789",
        "AIzaSyA1234567890abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "xoxb-123456789012-abcdefghijkl",
        "hf_abcdefghijklmnop1234",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdef",
        "0123456789abcdef0123456789abcdef",
    ],
)
def test_whatever_has_the_shape_of_a_key_is_taken_out(key: str) -> None:
    assert key not in redacted(f"refused: {key}, sorry")
    assert redacted(f"refused: {key}, sorry").endswith(", sorry")


def test_our_own_words_are_left_alone() -> None:
    for text in (
        "messages handed on unchanged: the scorer said nothing",
        "upstream api.openai.com answered 503 after 1,204 ms",
        "agora.gateway.compress_deadline_exceeded",
    ):
        assert redacted(text) == text


@FEW
@given(st.text(max_size=300))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.timing
def test_redacting_is_linear() -> None:
    def seconds(size: int) -> float:
        text = ("sk-" * 5 + "a1" * 7 + "-_/ ") * (size // 33)
        start = time.process_time()
        redacted(text)
        return time.process_time() - start

    seconds(10_000)
    assert min(seconds(800_000) for _ in range(3)) < 4 * min(seconds(400_000) for _ in range(3))


def test_other_packages_may_say_that_something_is_wrong_but_not_what(sink: io.StringIO) -> None:
    other = logging.getLogger("somebody.http")
    other.debug("GET https://h.test/?key=%s", CANARY)
    other.info("headers %s", {"authorization": CANARY})
    other.warning("cannot connect with %s", CANARY)
    [line] = lines(sink)

    assert line["logger"] == "somebody.http"
    assert str(line["where"]).startswith("test_logs.py:")
    assert "message" not in line


def test_an_exception_is_told_by_its_kind_and_place_and_not_by_its_words(
    sink: io.StringIO,
) -> None:
    log = logging.getLogger("agora.gateway.app")
    body: dict[str, str] = {}
    try:
        body["the secret plan"]
    except KeyError:
        log.exception("compressing failed")
    [line] = lines(sink)

    assert line["error"] == "KeyError"
    assert "test_logs.py" in str(line["at"])
    assert "secret plan" not in sink.getvalue()


def test_the_servers_own_messages_are_told_without_what_was_filled_in(sink: io.StringIO) -> None:
    server = logging.getLogger("uvicorn.error")
    server.info("Uvicorn running on %s", CANARY)
    server.info("Started server process [%d]", 4711)
    server.info("Waiting for 100 % of them")
    logging.getLogger("uvicorn.access").info('"GET /v1/x?key=%s"', CANARY)

    assert [line["message"] for line in lines(sink)] == [
        "Uvicorn running on ...",
        "Started server process [4711]",
        "Waiting for 100 % of them",
    ]


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-4-5-20250929",
        "gpt-5-2025-08-07",
        "gemini-3-pro-preview",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "accounts/fireworks/models/llama-v3p1-405b-instruct",
        "Qwen/Qwen2.5-Coder-32B-Instruct-GPTQ-Int8",
        "ft:gpt-4o-mini-2024-07-18:acme::B1cD2eF3",
        "some-task-model-2026-01-01",
    ],
)
def test_dated_and_long_names_of_models_are_told(sink: io.StringIO, model: str) -> None:
    log_exchange(Exchange(route="chat", tenant="t", model=model, status=200), DEBUG)

    assert [line["model"] for line in lines(sink)] == [model]


@pytest.mark.parametrize(
    "secret",
    [
        CANARY,
        f"gpt-5-{CANARY}",
        "0123456789abcdef0123456789abcdef",
        "gpt-5-0123456789abcdef0123456789abcdef",
        "7f3a9c1e-5b2d-4f60-aaaa-bbbbccccdddd",
        "Zq7Kp2Xw9Lm4Rt6Yv1Bn3Cd5",
        "please tell\nnobody",
        "x" * 200,
    ],
)
def test_what_is_no_name_of_a_model_is_not_told_as_one(sink: io.StringIO, secret: str) -> None:
    log_exchange(Exchange(route="chat", tenant="t", model=secret, status=200), DEBUG)

    assert [line["model"] for line in lines(sink)] == [REDACTED]


def test_an_answer_that_broke_off_is_a_warning_that_says_so(sink: io.StringIO) -> None:
    log_exchange(Exchange(route="chat", tenant="t", status=200, error="truncated"), DEBUG)
    [line] = lines(sink)

    assert (line["level"], line["status"], line["error"]) == ("warning", 200, "truncated")


def test_what_an_exchange_tells_itself_the_server_does_not_report_again(sink: io.StringIO) -> None:
    server = logging.getLogger("uvicorn.error")
    for error in (ToldError(), KeyError("x")):
        server.error("Exception in ASGI application", exc_info=error)

    assert [line["error"] for line in lines(sink)] == ["KeyError"]


@FEW
@given(st.text(max_size=200))
def test_every_record_is_one_line(text: str) -> None:
    for format in ("json", "text"):
        stream = io.StringIO()
        handler = configure_alone(Log(format=format), stream)
        record = logging.LogRecord("agora.x", logging.INFO, "a.py", 1, "said %s", (text,), None)
        record.fields = {"note": text}
        handler.handle(record)
        written = stream.getvalue()
        assert written.endswith("\n")
        assert len(written[:-1].split("\n")) == 1


def configure_alone(settings: Log, stream: io.StringIO) -> logging.Handler:
    """Return the handler without leaving it in place."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    handler = configure(settings, stream)
    root.handlers[:], root.level = before
    return handler


def test_plain_lines_are_for_people() -> None:
    stream = io.StringIO()
    handler = configure_alone(Log(format="text"), stream)
    record = logging.LogRecord("agora.gateway", logging.INFO, "a.py", 1, "request", (), None)
    record.fields = {"route": "chat", "reason": "not worth it", "headers": {"a": "b"}}
    handler.handle(record)

    assert (
        stream.getvalue().split("Z ", 1)[1]
        == 'info    request logger=agora.gateway route=chat reason="not worth it" '
        'headers="{\\"a\\":\\"b\\"}"\n'
    )
