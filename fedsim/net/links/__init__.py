"""Links that share their rate among flows: max-min fair, with queues and token buckets."""
