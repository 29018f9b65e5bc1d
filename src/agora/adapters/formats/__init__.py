"""The formats that come with the package, one module each."""

from agora.adapters.formats import anthropic, bedrock, gemini, openai, responses, texts
from agora.adapters.registry import install

BUILT_IN = (
    openai.FORMAT,
    responses.FORMAT,
    anthropic.FORMAT,
    gemini.FORMAT,
    bedrock.FORMAT,
    texts.TRANSCRIPT,
    texts.REACT,
)
for _format in BUILT_IN:
    install(_format)
FORMATS = tuple(format.name for format in BUILT_IN)
"""The names of the formats that come with the package."""
