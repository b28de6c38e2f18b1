"""Whether the run has all night: `HYPOTHESIS_PROFILE=nightly`."""

from __future__ import annotations

import os

IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
