"""The report of finished runs: one HTML page, its sections and tables, and the figures and CSVs beside it."""
