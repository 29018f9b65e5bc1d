"""A report as one page of HTML that fetches nothing; its one script switches the colours."""

from collections.abc import Iterator, Sequence
from html import escape

from agora.pages import write_page
from agora_lab.evaluation.blocks import Block, Heading


def page(title: str, blocks: Sequence[Block]) -> str:
    """Return the page: the verdict, the contents, then a card for each section.

    It is whole without its script, which the other pages share.
    """
    written = write_page("agora_lab.evaluation", "page.html", {})
    # In this order: whatever the blocks hold is not looked at again.
    head, _, rest = written.partition("__TITLE__")
    before, _, after = rest.partition("__BODY__")
    body = "\n".join(_parts(title, blocks))
    return f"{head}{escape(title)}{before}{body}{after}"


def _parts(title: str, blocks: Sequence[Block]) -> Iterator[str]:
    sections: list[list[Block]] = [[]]
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            sections.append([])
        sections[-1].append(block)
    said = "\n".join(one.html() for one in sections[0] if not isinstance(one, Heading))
    yield f'<section class="card hero"><p class="of">{escape(title)}</p>\n{said}</section>'
    yield _contents([own[0] for own in sections[1:] if isinstance(own[0], Heading)])
    for own in sections[1:]:
        inside = "\n".join(block.html() for block in own)
        yield f'<section class="card">{inside}</section>'


def _contents(headings: Sequence[Heading]) -> str:
    lines = "\n".join(
        f'<li><a href="#{one.anchor}">{escape(one.text)}</a></li>' for one in headings
    )
    return (
        '<nav class="card contents" id="contents" aria-labelledby="contents-title">'
        f'<h2 id="contents-title">Contents</h2>\n<ol>\n{lines}\n</ol></nav>'
    )
