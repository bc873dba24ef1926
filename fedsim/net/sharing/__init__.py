"""Sharing: links, and how the flows on them get their rates; it knows nothing of messages."""
