"""The building blocks of a report, each rendered as Markdown and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_SHORT = 44
"""Lines up to this many characters are not wrapped in a table."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A table entry; `kind` sets its look: ours, the paper's, good, bad, soft, head."""

    text: str
    kind: str = ""

    def markdown(self) -> str:
        """Return it as Markdown, the paper's numbers in italics."""
        text = self.text.replace("|", "\\|").replace("\n", "<br>")
        if self.kind == "paper" and text:
            return f"*{text}*"
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
    """A title; the level is 1 for the report's own."""

    text: str
    level: int = 2

    def markdown(self) -> str:
        """Return it as Markdown."""
        return f"{'#' * self.level} {self.text}"

    def html(self) -> str:
        """Return it as HTML."""
        return f"<h{self.level}>{escape(self.text)}</h{self.level}>"


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
    """Rows of entries under a header."""

    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [f"| {' | '.join(self.head)} |", f"|{'---|' * len(self.head)}"]
        lines += [f"| {' | '.join(one.markdown() for one in row)} |" for row in self.rows]
        return "\n".join(lines)

    def html(self) -> str:
        """Return it as HTML that scrolls sideways when it is wide."""
        head = "".join(f"<th>{escape(one)}</th>" for one in self.head)
        body = "\n".join(
            "<tr>" + "".join(f"<td{one.width()}>{one.html()}</td>" for one in row) + "</tr>"
            for row in self.rows
        )
        return (
            f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
            f"<tbody>{body}</tbody></table></div>"
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot; in Markdown it is a separate file."""

    name: str
    svg: str
    caption: str

    def markdown(self) -> str:
        """Return it as Markdown."""
        return f"![{self.caption}]({self.name}.svg)\n\n{self.caption}"

    def html(self) -> str:
        """Return it as HTML, the plot inside."""
        return (
            f'<figure><div class="wide">{self.svg}</div>'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


def _coded(text: str) -> str:
    """Return text as HTML; text between backticks is code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if n % 2 else p for n, p in enumerate(parts))


Block = Heading | Text | Table | Figure
