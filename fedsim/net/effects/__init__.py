"""Effects: what disturbs transfers, links and clients, one file each."""
