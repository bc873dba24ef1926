"""What runs the points of a sweep."""
