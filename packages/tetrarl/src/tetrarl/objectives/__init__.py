"""Losses, and the estimators that feed them."""
