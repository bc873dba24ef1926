"""A cohort: clients that are asked at once, as arrays, without a process or a message for each."""
