"""Steps scored by what is at hand: position, words, structure, encoders."""

from agora.scorers.load import load_scorer

__all__ = ["load_scorer"]
