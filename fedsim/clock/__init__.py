"""The clock: server, clients, protocols and samplers, which decide when, who and how many bytes; no torch."""
