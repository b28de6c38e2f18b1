"""The driver program that `spark-submit` runs: `python -m carnac` with the arguments that come after it.

It has a folder of its own, because Python puts the folder of a program in front of its search path.
"""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("carnac", run_name="__main__", alter_sys=True)
