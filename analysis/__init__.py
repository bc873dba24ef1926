"""From finished runs to tables, figures and one HTML report. Reads Parquet, imports nothing of fedsim."""
