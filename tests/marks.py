"""Marks that tests share."""

from __future__ import annotations

import os

import pytest

# What takes a minute, where a smaller share of it runs every time.
DEEP = pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "deep", reason="takes a minute: HYPOTHESIS_PROFILE=deep"
)
