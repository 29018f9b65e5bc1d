"""Which kind of agent asks, by the beginning of its User-Agent: a family, in our own words."""

FAMILIES = {
    "claude-cli": "claude-code",
    "codex": "codex",
    "opencode": "opencode",
    "geminicli": "gemini-cli",
    "aider": "aider",
    "litellm": "litellm",
    "cline": "cline",
    "roo-code": "roo-code",
    "cursor": "cursor",
    "langchain": "langchain",
    "openai/": "openai-sdk",
    "asyncopenai/": "openai-sdk",
    "anthropic/": "anthropic-sdk",
    "asyncanthropic/": "anthropic-sdk",
    "ai-sdk": "ai-sdk",
    "python-requests": "python-requests",
    "python-httpx": "python-httpx",
    "curl": "curl",
}
"""How a User-Agent begins, and what its family is called here."""


def agent_of(user_agent: str) -> str:
    """Return the family; nothing for one that is not known: names of one's own are not kept.

    >>> agent_of("claude-cli/2.1.9 (external, cli)"), agent_of("ourbot/3 for ACME")
    ('claude-code', '')
    """
    begins = user_agent.lower()
    return next((name for start, name in FAMILIES.items() if begins.startswith(start)), "")
