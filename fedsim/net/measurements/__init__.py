"""Measured links, phones, nights, devices and carbon, read from the files that fedsim comes with."""
