import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from harness.html_pages import ATTACKS, Elements
from hypothesis import given
from hypothesis import strategies as st

from agora.pages import write_page
from agora_lab.evaluation import plots
from agora_lab.evaluation.blocks import Entry, Figure, Heading, Table, Text, Verdict
from agora_lab.evaluation.page import page

LONG = "a_method_with_one_of_the_longest_names"


def bar(label: str) -> plots.Bar:
    return plots.Bar(label=label, value=1.2, low=0.8, high=1.5, kind="peer")


def point(label: str, y: float) -> plots.Point:
    return plots.Point(
        label=label, x=20.0, y=y, kind="agora", x_low=15.0, x_high=30.0, y_low=y, y_high=y
    )


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
            Figure("figure", plots.bars([(text, [bar(text)])], x_title=text), text),
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


def texts_of(plot: plots.Plot) -> list[tuple[str, float, float, float]]:
    """Return the labels of a plot: each with its left and right edge, and its line."""
    found = []
    for element in ET.fromstring(plot.svg()).iter("{http://www.w3.org/2000/svg}text"):  # noqa: S314 - our own
        text, x = element.text or "", float(element.attrib["x"])
        strong = "strong" in element.attrib["class"]
        wide = plots.width_of(text, 13.5 if strong else 11)
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[element.attrib["text-anchor"]]
        found.append((text, left, left + wide, float(element.attrib["y"])))
    return found


def fit(plot: plots.Plot) -> None:
    labels = texts_of(plot)
    for text, left, right, line in labels:
        assert left >= 0, text
        assert right <= plot.width, text
        assert 10 <= line <= plot.height - 2, text
    for at, (text, left, right, line) in enumerate(labels):
        for other, other_left, other_right, other_line in labels[at + 1 :]:
            if abs(line - other_line) < 11:
                assert right <= other_left or other_right <= left, (text, other)


def test_labels_of_a_plot_neither_touch_nor_reach_beyond_it() -> None:
    many = [point(f"{LONG}_{n}", 0.5 + n / 1_000) for n in range(30)]
    settings = ["by_price", "every_call", "a_long_setting", "another_long_setting"]
    curve = plots.Curve("a_long_world", "agora", ((0.1, 0.2, 0.3),) * len(settings))

    made = [
        *plots.scatter(
            [("hill", many), ("plain", many[:3])], x_title="dollars", y_title="mean reward"
        ),
        *plots.bars([("sheet", [bar(LONG), bar("none")])], x_title="bill, as a ratio to all"),
        *plots.curves([(LONG, settings, [curve] * 5)], y_title="steps"),
    ]

    for plot in made:
        fit(plot)


@given(st.lists(st.floats(0, 300), max_size=20).map(sorted))
def test_labels_keep_their_order_and_a_line_between_them(wanted: list[float]) -> None:
    places = plots.spread(wanted, 0, 300)

    assert len(places) == len(wanted)
    assert all(0 <= place <= 300 + 1e-6 for place in places)
    for above, below in pairwise(places):
        assert below - above >= 13 - 1e-6


def test_labels_with_room_stand_where_they_want_to() -> None:
    assert plots.spread([20.0, 90.0, 200.0], 0, 300) == [20.0, 90.0, 200.0]


def test_a_plot_has_the_colours_of_dark_pages_in_a_file_and_on_a_page() -> None:
    made = plots.bars([("sheet", [bar("none")])], x_title="bill")

    assert "prefers-color-scheme: dark" in plots.together(made)
    assert "light-dark(#1a5fb4, #7db4f5)" in plots.page_colours()
    assert "light-dark(#1a5fb4, #7db4f5)" in written()


def test_a_file_holds_every_panel_apart_from_the_others() -> None:
    made = plots.bars([(str(n), [bar("none")]) for n in range(5)], x_title="bill")
    whole = ET.fromstring(plots.together(made))  # noqa: S314 - our own

    boxes = {(panel.get("x"), panel.get("y")) for panel in whole if panel.tag.endswith("svg")}
    assert len(boxes) == 5
    assert float(whole.attrib["width"]) >= 2 * made[0].width - 1
