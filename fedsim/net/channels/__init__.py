"""Passages under way: over one access link, over those of a cohort, over connections that are kept."""
