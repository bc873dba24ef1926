"""Inputs: what is read from files or known of kinds of links: traces, tables, graphs, profiles."""
