import base64
import hashlib
import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agora.logs import Bad, Recording, Tally
from agora.replay import Pricing, Report, page, run
from harness.html_pages import ATTACKS, Elements
from tests.replay.recordings import messages


def a_report(name: str = "one", steps: int = 30) -> dict[str, Any]:
    pricing = Pricing()
    report = Report(pricing)
    recordings = [
        Recording(id=name, format="openai", messages=messages(steps, task=name), task=name),
        Recording(id=name, format=name, messages=[], model=name),
    ]
    for outcome in run(recordings, pricing):
        report.add(outcome)
    tally = Tally(bad=1, examples=[Bad(name, name)])
    return report.value(tally, [name])


@settings(max_examples=30, deadline=None)
@given(text=st.sampled_from(ATTACKS) | st.text(max_size=200))
def test_whatever_stands_in_a_log_comes_back_as_data_and_never_as_markup(text: str) -> None:
    report = a_report(text, steps=1)

    elements = Elements(page(report))

    plain = Elements(page(a_report("plain", steps=1)))
    assert elements.tags == plain.tags
    assert json.loads(elements.inside["script"][0]) == json.loads(json.dumps(report))
    assert elements.inside["script"][1] == plain.inside["script"][1]


def test_the_page_names_nothing_outside_of_it() -> None:
    text = page(a_report())
    elements = Elements(text)
    code = elements.inside["script"][1] + elements.inside["style"][0]

    for tag, attributes in elements.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form", "video"}
        assert not {"src", "srcset", "action"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
    assert set(re.findall(r"https?://[^\s\"']+", code)) == {"http://www.w3.org/2000/svg"}
    for word in (
        "fetch(",
        "XMLHttpRequest",
        "import(",
        "@import",
        "url(http",
        "innerHTML",
        "eval(",
    ):
        assert word not in code


def test_the_policy_of_the_page_lets_its_own_script_and_style_run_and_nothing_else() -> None:
    text = page(a_report())
    elements = Elements(text)
    [policy] = [
        attributes["content"] or ""
        for tag, attributes in elements.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]

    assert policy.startswith("default-src 'none'")
    for kind, source in (
        ("script-src", elements.inside["script"][1]),
        ("style-src", elements.inside["style"][0]),
    ):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_a_page_of_nothing_is_a_page() -> None:
    report = Report(Pricing()).value(Tally(), [])

    [data, _] = Elements(page(report)).inside["script"]

    assert json.loads(data)["rows"] == []


def test_the_same_report_gives_the_same_bytes() -> None:
    assert page(a_report()) == page(a_report())
