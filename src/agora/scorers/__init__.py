"""Scorers of steps: recency, BM25, and the paper's cross-encoder on ONNX."""

from agora.scorers.bm25 import BM25Scorer
from agora.scorers.bundle import write_bundle
from agora.scorers.load import load_scorer
from agora.scorers.recency import RecencyScorer

__all__ = ["BM25Scorer", "RecencyScorer", "load_scorer", "write_bundle"]
