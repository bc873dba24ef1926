"""Many points: where they run, how they are shown, what they found, and the search for options."""
