"""`python -m carnac` is `carnac`."""

from __future__ import annotations

import sys

from carnac.cli import main

if __name__ == "__main__":
    sys.exit(main())
