"""Parts that a scenario names: where they are found, their options and defaults."""
