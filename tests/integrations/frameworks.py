"""The frameworks, and what is installed for each: the newest release and the oldest we claim.

Exact releases of everything stand in locks/, so that what is published tomorrow is met when
somebody moves the locks, and not by whoever changes something else.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.integrations.start import START

ROOT = Path(__file__).parents[2]
ENDS = ("newest", "oldest")
COUNTS = "tests.integrations.counts"


@dataclass(frozen=True, slots=True)
class Framework:
    """What is installed for a framework, newest and oldest, and how it is tested.

    The oldest release stands with provider clients of its time: it does not know later ones.
    """

    name: str
    title: str
    newest: tuple[str, ...]
    oldest: tuple[str, ...]
    packages: tuple[str, ...]
    """Whose versions the table shows; the first is the framework itself."""
    first: bool = True
    """Whether CI builds it."""
    loop: bool = True
    """Whether its example is an agent that can run before a real server."""
    start: tuple[str, ...] = ()
    """What stands before the example's name on the command line, before a real server."""
    options: tuple[str, ...] = ()
    """What stands behind it there."""

    @property
    def test(self) -> str:
        return f"tests/integrations/test_{self.name}.py"

    def ends(self) -> tuple[str, ...]:
        """Return the ends that are claimed: of some, only the newest."""
        return ENDS if self.oldest else ENDS[:1]

    def lock(self, end: str) -> Path:
        """Return the file with the exact releases of an environment."""
        return Path(__file__).parent / "locks" / f"{self.name}-{end}.txt"


FRAMEWORKS = (
    Framework(
        "clients",
        "OpenAI and Anthropic clients",
        ("openai", "anthropic"),
        ("openai==2.0.0", "anthropic==0.70.0"),
        ("openai", "anthropic"),
    ),
    Framework(
        "langchain",
        "LangChain, LangGraph",
        ("langchain", "langgraph", "langchain-openai", "langchain-anthropic"),
        (
            "langchain==1.1.0",
            "langgraph==1.0.2",
            "langgraph-prebuilt==1.0.2",
            "langchain-openai==1.1.0",
            "langchain-anthropic==1.2.0",
            "openai<3",
            "anthropic<1",
        ),
        ("langchain", "langgraph", "langchain-core"),
    ),
    Framework(
        "openai_agents",
        "OpenAI Agents SDK",
        ("openai-agents",),
        ("openai-agents==0.4.0", "openai==2.6.0"),
        ("openai-agents", "openai"),
    ),
    Framework(
        "pydantic_ai",
        "Pydantic AI",
        ("pydantic-ai-slim[openai,anthropic]", "pydantic-ai-harness"),
        ("pydantic-ai-slim[openai,anthropic]==2.0.0", "openai<3", "anthropic<1"),
        ("pydantic-ai-slim", "pydantic-ai-harness"),
    ),
    Framework(
        "pydantic_judge",
        "Pydantic AI, a judge of steps",
        # Newer releases of pydantic-ai-slim go with harnesses that have no RelevanceCompaction.
        ("pydantic-ai-slim", "pydantic-ai-harness>=0.60", "aiohttp", "msgspec"),
        ("pydantic-ai-slim==2.0.0",),
        ("pydantic-ai-slim", "pydantic-ai-harness"),
        loop=False,
    ),
    Framework(
        "litellm",
        "LiteLLM",
        ("litellm[proxy]",),
        ("litellm[proxy]==1.83.0",),
        ("litellm",),
    ),
    Framework(
        "inspect_ai",
        "Inspect AI",
        ("inspect-ai", "openai", "anthropic"),
        ("inspect-ai==0.3.180", "openai==2.17.0", "anthropic==0.80.0"),
        ("inspect-ai",),
        # Its encoding is a download; a count by characters does for a threshold.
        options=("--min-tokens", "375"),
        start=(
            "-c",
            START.format(f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {COUNTS}"),
        ),
    ),
    Framework(
        "smolagents",
        "smolagents",
        ("smolagents[openai]",),
        ("smolagents[openai]==1.21.0",),
        ("smolagents",),
    ),
    Framework(
        "strands",
        "Strands Agents",
        ("strands-agents[openai]",),
        ("strands-agents[openai]==1.10.0", "openai<3"),
        ("strands-agents", "openai"),
        first=False,
    ),
    Framework(
        "agent_framework",
        "Microsoft Agent Framework",
        ("agent-framework-core", "agent-framework-openai"),
        (),
        ("agent-framework-core", "agent-framework-openai"),
        first=False,
    ),
    Framework(
        "google_adk",
        "Google ADK",
        ("google-adk", "litellm[proxy]"),
        ("google-adk==2.0.0", "litellm[proxy]"),
        ("google-adk", "litellm"),
        first=False,
    ),
    Framework(
        "mcp",
        "MCP server (recall)",
        ("mcp",),
        ("mcp==2.0.0",),
        ("mcp",),
        first=False,
        loop=False,
    ),
)
