"""What is scored with what: a file for each split."""
