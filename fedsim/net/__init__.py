"""The network: messages, links, transfers and what disturbs them. Knows nothing of learning."""
