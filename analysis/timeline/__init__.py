"""A finished point as a timeline of simulated time, in Chrome's trace event format, for Perfetto and chrome://tracing."""
