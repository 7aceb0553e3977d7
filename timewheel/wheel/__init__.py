"""WHICH TICK is next? `level` and `wheel` decide; `ticker` acts."""
