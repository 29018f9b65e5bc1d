"""Backbones decide on the next action: language models, readers, recorded answers."""

from agora_lab.agents.base import Answer, Backbone, Messages, content_text, prompt_text

__all__ = ["Answer", "Backbone", "Messages", "content_text", "prompt_text"]
