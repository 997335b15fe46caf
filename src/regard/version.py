"""The version of Regard; pyproject.toml says the same."""

VERSION = "0.2.0"
