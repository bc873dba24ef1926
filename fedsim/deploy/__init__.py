"""Deploy a scenario: the same algorithm and protocol, on real machines and the wall clock."""
