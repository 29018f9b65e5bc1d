"""The wire formats by name. A new one is a file and a row here."""

from agora.errors import UnknownFormatError, nearest
from agora.formats.anthropic import Anthropic
from agora.formats.base import Format
from agora.formats.bedrock import Bedrock
from agora.formats.gemini import Gemini
from agora.formats.openai_chat import OpenAIChat
from agora.formats.openai_responses import OpenAIResponses
from agora.formats.transcript import Transcript

KNOWN: dict[str, Format] = {
    format.name: format
    for format in (
        OpenAIChat(),
        OpenAIResponses(),
        Anthropic(),
        Gemini(),
        Bedrock(),
        Transcript(),
    )
}
"""Every format by its name, in the order in which they are asked whether a prompt is theirs."""
FORMATS = tuple(KNOWN)


def formats() -> tuple[Format, ...]:
    """Return every format, in the order of asking."""
    return tuple(KNOWN.values())


def format_names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return tuple(KNOWN)


def find_format(name: str) -> Format | None:
    """Return a format by its name, None if there is none."""
    return KNOWN.get(name)


def format_named(name: str) -> Format:
    """Return a format by its name.

    Raises:
        UnknownFormatError: There is no such format.
    """
    if name not in KNOWN:
        near = nearest(name, KNOWN)
        raise UnknownFormatError(f"there is no format {name!r}{near}", format_names())
    return KNOWN[name]


def known_format(name: str) -> str:
    """Return `name` if it is a format's.

    Raises:
        UnknownFormatError: There is no such format.
    """
    return format_named(name).name
