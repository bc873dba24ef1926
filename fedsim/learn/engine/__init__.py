"""Training of a whole cohort at once: layout, rows, products, optimisers."""
