"""`python -m timewheel`."""

import sys

from timewheel.cli import main

if __name__ == "__main__":
    sys.exit(main())
