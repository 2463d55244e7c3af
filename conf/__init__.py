"""Hydra configuration of the core; experiments live with their plugin."""
