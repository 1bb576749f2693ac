"""Figures: what to draw is decided first, as frozen dataclasses; only then comes Plotly, as plain dicts."""
