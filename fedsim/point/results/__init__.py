"""Folders of results: names, checksums, stamps of the sources, results that are out of date."""
