"""Tasks: what is predicted; one file each."""
