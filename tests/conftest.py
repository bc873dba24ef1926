"""Puts this folder on the path, so that tests in its subfolders find the helpers that lie here."""
