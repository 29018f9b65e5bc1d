"""The SDKs of Google and AWS as judges: what they take before compression they take after it.

Both check a request's shape before it is sent: google-genai by its models of a request, which
know every field there is, botocore by the service model of Converse.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from google.genai import types
from pydantic import ValidationError

from agora import Budget, Compression, Compressor
from agora.formats import recall_tool
from agora.scorers import RecencyScorer
from harness.histories import History, sample
from tests.histories_exhaustive import BEDROCK, GEMINI, GEMINI_MERGED, Spelling, histories

Judge = Callable[[Any, Any, Any], str]
"""Takes messages, system and tools; returns why they are refused, or nothing."""

_DRAWN = 400


def _google(messages: Any, system: Any, tools: Any) -> str:
    config = {"system_instruction": system, "tools": tools}
    request = {"model": "gemini-3-pro-preview", "contents": messages, "config": config}
    try:
        types._GenerateContentParameters.model_validate(request)
        # Above, a value that is no content may still pass for a part or a file.
        for content in messages:
            types.Content.model_validate(content)
    except ValidationError as error:
        return str(error)
    return ""


def _amazon(messages: Any, system: Any, tools: Any) -> str:
    request = {"modelId": "amazon.nova-pro-v1:0", "messages": messages}
    if system is not None:
        request["system"] = [{"text": system}] if isinstance(system, str) else system
    if tools is not None:
        request["toolConfig"] = tools
    report = ParamValidator().validate(request, _converse())
    return str(report.generate_report())


@cache
def _converse() -> Any:
    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    return service.operation_model("Converse").input_shape


JUDGES: dict[str, Judge] = {"gemini": _google, "bedrock": _amazon}


def _compressions(messages: Any, **request: Any) -> Iterator[Compression]:
    for keep_ratio in (0.0, 0.5):
        compressor = Compressor(
            scorer=RecencyScorer(),
            budget=Budget(keep_ratio=keep_ratio),
            k_recent=1,
            edits="every_call",
            strict=True,
        )
        compression = compressor.compress(messages, **request)
        if compression.changed:
            yield compression


@pytest.mark.parametrize("name", JUDGES)
def test_an_sdk_takes_every_drawn_history_compressed_that_it_took_before(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = JUDGES[name]
    taken = refused = judged = 0
    for history in sample(name, _DRAWN, seed=5):
        if _refuses(judge, history, history.messages):
            refused += 1
            continue
        taken += 1
        for compression in _compressions(history.messages, **history.request):
            judged += 1
            reason = _refuses(judge, history, compression.messages)
            assert not reason, (reason, compression.messages)

    with capsys.disabled():
        print(f"\n{name}: {taken} drawn histories taken, {judged:,} outputs judged, 0 refused")  # noqa: T201
    # Refused are those with a part or a block that is made up, to be a kind not known yet.
    assert refused < 0.2 * _DRAWN
    assert judged > taken


def _refuses(judge: Judge, history: History, messages: Any) -> str:
    return judge(messages, history.system, history.tools)


@pytest.mark.parametrize(
    "spelling", [GEMINI, GEMINI_MERGED, BEDROCK], ids=lambda spelling: spelling.name
)
def test_an_sdk_takes_every_enumerated_history_compressed(spelling: Spelling) -> None:
    judge = JUDGES[spelling.format]
    judged = 0
    for history in histories(spelling, 5):
        followed = spelling.write(history.word + "CRCR")
        if followed is None or followed.broken():
            continue
        assert not judge(followed.messages, followed.system, None)
        said = {"format": followed.format, "system": followed.system}
        for compression in _compressions(followed.messages, **said):
            judged += 1
            assert not judge(compression.messages, followed.system, None)
    assert judged > 50


def test_an_sdk_takes_the_recall_tool() -> None:
    asked = [{"role": "user", "parts": [{"text": "hi"}]}]
    assert not _google(asked, None, [recall_tool("gemini")])
    converse = [{"role": "user", "content": [{"text": "hi"}]}]
    assert not _amazon(converse, None, {"tools": [recall_tool("bedrock")]})


@pytest.mark.parametrize("name", JUDGES)
def test_an_sdk_would_see_a_marker_in_another_formats_shape(name: str) -> None:
    judge = JUDGES[name]
    field = "parts" if name == "gemini" else "content"
    as_anthropic = [{"role": "user", field: [{"type": "text", "text": "[step 1 elided]"}]}]
    bare = [{"role": "user", field: "[step 1 elided]"}]

    assert judge(as_anthropic, None, None)
    assert judge(bare, None, None)
