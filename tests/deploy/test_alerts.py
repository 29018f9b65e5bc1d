"""The dashboard and the alerts ask for nothing that nobody counts."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra gateway is not installed")

# Private: the names and labels of all metrics, also of those not counted yet.
from agora.service.metrics import Metrics

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "agora.json"
RULES = DEPLOY / "prometheus" / "agora.rules.yml"
RULE_TESTS = DEPLOY / "prometheus" / "agora.rules.test.yml"

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{([^{}]*)\})?")
MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*')
GROUPED = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
WORDS = frozenset(
    "sum max min avg count rate increase histogram_quantile absent vector and or unless by without "
    "on ignoring group_left group_right bool offset topk".split()
)
SCRAPED = frozenset({"instance", "job"})
"""Labels that Prometheus adds."""


def counted() -> dict[str, frozenset[str]]:
    """Return every sample's name with its labels, as the registry has them."""
    found: dict[str, frozenset[str]] = {}
    for name, collector in Metrics()._registry._names_to_collectors.items():
        if name.endswith(("_total", "_bucket", "_state")):
            labels = frozenset(getattr(collector, "_labelnames", ()))
            found[name] = labels | {"le"} if name.endswith("_bucket") else labels
    return found


def asked(expression: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the metrics an expression names, each with the labels it is matched by.

    Raises:
        ValueError: it is no expression, as far as its words tell.
    """
    for opening, closing in ("()", "{}", "[]"):
        if expression.count(opening) != expression.count(closing):
            raise ValueError(f"{opening} and {closing} do not match in {expression}")
    text = re.sub(r"\[[^\]]*\]", "", expression)
    text = GROUPED.sub(" ", text)
    strings = re.sub(r'"(?:[^"\\]|\\.)*"', lambda m: '"' + "x" * (len(m.group()) - 2) + '"', text)
    for match in SELECTOR.finditer(strings):
        name, matchers = match.group(1), match.group(2)
        if name in WORDS or re.fullmatch(r"e\d+", name):
            continue
        labels = set()
        for matcher in filter(None, (matchers or "").split(",")):
            found = MATCHER.fullmatch(matcher)
            if found is None:
                raise ValueError(f"{matcher} matches nothing in {expression}")
            labels.add(found.group(1))
        yield name, frozenset(labels)


def grouped(expression: str) -> set[str]:
    return {
        label.strip()
        for _, labels in GROUPED.findall(expression)
        for label in labels.split(",")
        if label.strip()
    }


def check(expression: str) -> None:
    known = counted()
    labels_here: set[str] = set()
    names = list(asked(expression))
    assert names, expression
    for name, labels in names:
        assert name in known, f"{name} is counted nowhere; it is asked for in {expression}"
        assert labels <= known[name] | SCRAPED, (labels, name, expression)
        labels_here |= known[name]
    assert grouped(expression) <= labels_here | SCRAPED, expression


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def targets() -> list[str]:
    return [
        target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())
    ]


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_panel_asks_for_what_is_counted() -> None:
    assert len(targets()) > 15
    for expression in targets():
        check(expression)


def test_every_alert_asks_for_what_is_counted_and_says_what_to_do() -> None:
    assert len(alerts()) > 7
    for alert in alerts():
        check(alert["expr"])
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert set(alert["annotations"]) == {"summary", "action"}


@pytest.mark.parametrize(
    "expression",
    [
        "rate(agora_requets_total[5m])",
        'agora_requests_total{upstream="x"}',
        "sum by (model) (agora_requests_total)",
        "agora_requests_total{reason=late}",
        "sum(agora_requests_total",
        "agora_held_seconds > 1",
        "vector(1)",
    ],
)
def test_an_expression_that_asks_for_something_else_is_found(expression: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check(expression)


def test_the_variables_of_the_dashboard_are_labels_that_exist() -> None:
    known = counted()
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            query = variable["query"]["query"]
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()  # type: ignore[union-attr]
            assert label in known[name] | SCRAPED


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    places = [
        (x, y)
        for panel in panels
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_itself_takes_the_rules_and_they_fire_as_they_should(tmp_path: Path) -> None:
    panels = tmp_path / "panels.yml"
    filled = [
        re.sub(r"\$(instance|upstream|model)", ".*", expression)
        .replace("$__rate_interval", "5m")
        .replace("$__range", "6h")
        for expression in targets()
    ]
    rules = [{"record": f"panel:{at}", "expr": text} for at, text in enumerate(filled)]
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for arguments in (
        ("check", "rules", str(RULES)),
        ("check", "rules", str(panels)),
        ("test", "rules", str(RULE_TESTS)),
    ):
        done = subprocess.run(
            ["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
