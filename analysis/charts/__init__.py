"""Vega-Lite charts: what they share, how they are drawn to files, and what can be chosen on the page."""
