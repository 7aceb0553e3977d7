"""python -m timewheel.testing.simulation: run seeds on all cores, and say what came of them."""

from __future__ import annotations

import sys

from timewheel.testing.simulation.command import main

if __name__ == "__main__":
    sys.exit(main())
