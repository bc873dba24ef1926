"""The measured numbers that the documentation states, with commands that rerun them: `python -m analysis.claims`.

`analysis/claims.yaml` has them as the tables of the pages show them (`file`), `page` writes these tables,
and `rerun` runs a claim's command and holds the recorded value against the result.  Not modelled: numbers within prose.
"""
