"""Read the folders of runs: their points, tables and scenarios, and what is asked of them."""
