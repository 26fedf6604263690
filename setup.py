"""Everything about the package is in pyproject.toml; this file lets old tools find it."""

from setuptools import setup

setup()
