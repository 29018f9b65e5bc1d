"""The formats, one module each."""

from agora.adapters.formats import anthropic, bedrock, gemini, openai, responses, transcript

BUILT_IN = (
    openai.FORMAT,
    responses.FORMAT,
    anthropic.FORMAT,
    gemini.FORMAT,
    bedrock.FORMAT,
    transcript.FORMAT,
)
