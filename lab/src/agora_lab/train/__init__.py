"""Scorers trained from labels, calibrated and exported."""
