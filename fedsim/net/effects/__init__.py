"""Effects: disturbances of transfers, links and clients, one file each."""
