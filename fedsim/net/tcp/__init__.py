"""TCP as a fluid: its laws, slow start, congestion avoidance, windows that are used again, flow control."""
