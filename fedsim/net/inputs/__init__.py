"""Inputs read from files, and known figures for kinds of links: traces, tables, graphs, profiles."""
