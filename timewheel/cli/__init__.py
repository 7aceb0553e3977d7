"""The commands `serve`, `jobs` and `verify`; the only part of timewheel that prints."""

from timewheel.cli.entry import main

__all__ = ["main"]
