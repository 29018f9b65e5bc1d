"""Scorers of steps: recency, BM25, and the paper's cross-encoder on ONNX."""

from agora.scorers.load import load_scorer

__all__ = ["load_scorer"]
