"""Sharing: links, and how rates are shared among the flows on them; nothing here depends on messages."""
