"""What a wheel holds: `algorithms` and `analysis` go below fedsim, where they hide no folder of these names."""

from setuptools import find_packages, setup

BELOW = "fedsim._shipped"
SHIPPED = ("algorithms", "analysis")

setup(
    packages=[
        *find_packages(include=["fedsim", "fedsim.*"]),
        *(f"{BELOW}.{name}" for folder in SHIPPED for name in find_packages(include=[folder, f"{folder}.*"])),
    ],
    package_dir={f"{BELOW}.{folder}": folder for folder in SHIPPED},
)
