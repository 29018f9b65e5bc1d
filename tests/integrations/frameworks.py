"""The frameworks, and what is installed for each: the newest release and the oldest we claim.

locks/ has the exact releases of everything in an environment, so a release of tomorrow is met by
whoever moves the locks.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENDS = ("newest", "oldest")


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework and its packages; the oldest release needs provider clients of its time."""

    name: str
    title: str
    newest: tuple[str, ...]
    oldest: tuple[str, ...]
    packages: tuple[str, ...]
    """Those whose versions the table shows; the first is the framework itself."""

    @property
    def test(self) -> str:
        return f"tests/integrations/test_{self.name}.py"

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
        ("pydantic-ai-slim[openai,anthropic]",),
        ("pydantic-ai-slim[openai,anthropic]==2.0.0", "openai<3", "anthropic<1"),
        ("pydantic-ai-slim",),
    ),
    Framework(
        "litellm",
        "LiteLLM",
        ("litellm[proxy]",),
        ("litellm[proxy]==1.83.0",),
        ("litellm",),
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
        ("strands-agents[openai,anthropic]",),
        ("strands-agents[openai,anthropic]==1.10.0", "openai<3"),
        ("strands-agents", "openai"),
    ),
    Framework(
        "google_adk",
        "Google ADK",
        ("google-adk", "anthropic"),
        ("google-adk==2.0.0", "anthropic"),
        ("google-adk", "google-genai"),
    ),
)
