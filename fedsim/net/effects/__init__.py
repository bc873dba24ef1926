"""Effects: jitter, loss, churn, dropout, one file each."""
