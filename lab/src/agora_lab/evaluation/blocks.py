"""The building blocks of a report, each rendered as Markdown and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_SHORT = 44
"""Lines up to this many characters are not wrapped in a table."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A table entry; `kind` sets its look: good, bad, soft, head."""

    text: str
    kind: str = ""

    def markdown(self) -> str:
        """Return it as Markdown."""
        text = self.text.replace("|", "\\|").replace("\n", "<br>")
        return f"**{text}**" if self.kind in ("head", "bold") and text else text

    def width(self) -> str:
        """Return the class that keeps short lines from wrapping."""
        return ' class="short"' if all(len(x) <= _SHORT for x in self.text.split("\n")) else ""

    def html(self) -> str:
        """Return it as HTML, its kind as a class."""
        text = _coded(self.text).replace("\n", "<br>")
        return f'<span class="is-{self.kind}">{text}</span>' if self.kind else text


@dataclass(frozen=True, slots=True)
class Heading:
    """A title; the level is 1 for the report's own, 2 for a section with its line of contents."""

    text: str
    level: int = 2

    @property
    def anchor(self) -> str:
        """What a link to it says."""
        letters = "".join(c if c.isalnum() else " " for c in self.text.lower())
        return "-".join(letters.split())

    def markdown(self) -> str:
        """Return it as Markdown."""
        return f"{'#' * self.level} {self.text}"

    def html(self) -> str:
        """Return it as HTML."""
        named = f' id="{self.anchor}"' if self.level == 2 else ""
        return f"<h{self.level}{named}>{escape(self.text)}</h{self.level}>"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out: one line that says it, and what it rests on, each point with a name."""

    headline: str
    points: Sequence[tuple[str, str]]

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [f"**{self.headline}**", ""]
        lines += [f"- {name}: {text}" for name, text in self.points]
        return "\n".join(lines)

    def html(self) -> str:
        """Return it as HTML: the page's first words."""
        points = "\n".join(
            f"<div><dt>{escape(name)}</dt><dd>{_coded(text)}</dd></div>"
            for name, text in self.points
        )
        return f"<h1>{_coded(self.headline)}</h1>\n<dl>\n{points}\n</dl>"


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str

    def markdown(self) -> str:
        """Return it as Markdown."""
        return self.text

    def html(self) -> str:
        """Return it as HTML."""
        return f"<p>{_coded(self.text)}</p>"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of entries under a header.

    On a narrow screen a table of numbers scrolls beside its first column, one of
    `words` shows each row as lines.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    words: bool = False

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [f"| {' | '.join(self.head)} |", f"|{'---|' * len(self.head)}"]
        lines += [f"| {' | '.join(one.markdown() for one in row)} |" for row in self.rows]
        return "\n".join(lines)

    def html(self) -> str:
        """Return it as HTML that scrolls inside itself when it is wide."""
        head = "".join(f"<th>{escape(one)}</th>" for one in self.head)
        body = "\n".join(f"<tr>{_cells(row)}</tr>" for row in self.rows)
        # What scrolls can be reached by keyboard.
        return (
            f'<div class="scroll {"words" if self.words else "numbers"}" tabindex="0">'
            f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture; beside Markdown it is a file of its own."""

    name: str
    svg: str
    caption: str

    def markdown(self) -> str:
        """Return it as Markdown."""
        return f"![{self.caption}]({self.name}.svg)\n\n{self.caption}"

    def html(self) -> str:
        """Return it as HTML, the picture inside."""
        said = f'<svg role="img" aria-label="{escape(self.caption)}"'
        picture = self.svg.replace("<svg", said, 1)
        return f"<figure><figcaption>{escape(self.caption)}</figcaption>\n{picture}</figure>"


def _cells(row: Sequence[Entry]) -> str:
    # Names of methods are long and have no spaces: they may break where their words end.
    first = f"<td{row[0].width()}>{row[0].html().replace('_', '_<wbr>')}</td>"
    return first + "".join(f"<td{one.width()}>{one.html()}</td>" for one in row[1:])


def _coded(text: str) -> str:
    """Return text as HTML; text between backticks is code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if n % 2 else p for n, p in enumerate(parts))


Block = Heading | Text | Table | Figure | Verdict
