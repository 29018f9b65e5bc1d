"""Backbones: what decides on the next action. Language models, readers, recorded answers."""

from agora.lab.backbones.base import Answer, Backbone, Chooser, Messages, content_text, prompt_text

__all__ = ["Answer", "Backbone", "Chooser", "Messages", "content_text", "prompt_text"]
