import re
from xml.etree import ElementTree as ET

import pytest
from harness.html_pages import ATTACKS, Elements

from agora.pages import write_page
from agora_lab.evaluation import plots
from agora_lab.evaluation.blocks import Entry, Figure, Heading, Table, Text, Verdict
from agora_lab.evaluation.page import page

MARK = plots.Mark(1.2, 0.8, 1.5)
BAR = plots.Bar("a_method", "peer", MARK)


def written(text: str = "words") -> str:
    return page(
        text,
        [
            Heading(text, 1),
            Verdict(text, [(text, text)]),
            Heading("First part"),
            Text(text),
            Table(["method", text], [[Entry(text), Entry(text, "good")]]),
            Heading("Second part"),
            Figure("figure", plots.bars([("sheet", [BAR])], x_title="bill"), text),
        ],
    )


def test_the_verdict_stands_first_then_contents_that_lead_to_every_section() -> None:
    text = written()

    places = [text.index(part) for part in ("<h1>words</h1>", 'id="contents"', "<h2 id=")]
    assert places == sorted(places)
    links = re.findall(r'<li><a href="#([^"]+)">', text)
    assert links == ["first-part", "second-part"]
    for link in links:
        assert text.count(f'id="{link}"') == 1


def test_the_header_and_its_style_are_those_of_the_other_pages() -> None:
    other = write_page("agora.replay", "page.html", {})

    for text in (written(), other):
        assert '<header><div class="bar">\n  <div class="brand">AGORA <span>' in text
        assert '<button id="theme" type="button"></button>' in text
        assert text.count("prefers-reduced-motion") == 1
        assert text.count("const data = JSON.parse") == 1


def test_no_place_of_the_template_is_left_open() -> None:
    assert not re.findall(r"__[A-Z_]+__", written())


@pytest.mark.parametrize("text", [*ATTACKS, "__BODY__ __TITLE__ __STYLE__"])
def test_whatever_a_report_says_never_becomes_markup(text: str) -> None:
    shown, plain = Elements(written(text)), Elements(written())

    assert [tag for tag, _ in shown.tags if tag != "wbr"] == [tag for tag, _ in plain.tags]
    assert shown.inside == plain.inside


def test_every_table_scrolls_inside_itself() -> None:
    text = written()

    assert text.count("<table>") == 1
    assert text.count('<div class="scroll numbers" tabindex="0"><table>') == 1


def test_a_plot_says_every_name_and_is_the_same_bytes_when_drawn_again() -> None:
    points = [plots.Point(name, "agora", MARK, MARK) for name in ("first", "<second>")]
    panels = [("hill", points), ("plain", points[:1])]

    drawn, again = (
        plots.scatter(panels, x_title="dollars", y_title="mean reward") for _ in range(2)
    )
    said = "".join(ET.fromstring(drawn).itertext())  # noqa: S314 - our own

    assert drawn == again
    for text in ("hill", "plain", "dollars", "mean reward", "1 <second>", "2 first"):
        assert text in said


def test_only_points_that_nothing_beats_are_joined() -> None:
    def point(name: str, x: float, y: float) -> plots.Point:
        return plots.Point(name, "peer", plots.Mark(x, x, x), plots.Mark(y, y, y))

    points = [point("dear", 3, 0.9), point("beaten", 2, 0.4), point("cheap", 1, 0.5)]

    assert [one.label for one in plots.front(points)] == ["cheap", "dear"]
