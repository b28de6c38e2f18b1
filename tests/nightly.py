"""How long the run may look: all night with `HYPOTHESIS_PROFILE=nightly`, shortly with `fast`, as `make check` does."""

from __future__ import annotations

import os

IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
IS_FAST = os.environ.get("HYPOTHESIS_PROFILE") == "fast"
