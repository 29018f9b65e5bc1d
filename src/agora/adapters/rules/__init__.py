"""What each provider accepts: every rule, and the checks that hold messages against them."""

from agora.adapters.rules.catalogue import CATALOGUE, Broken, Rule

__all__ = ["CATALOGUE", "Broken", "Rule"]
