"""Arrow without pandas, in processes where only Carnac's own code runs.

Arrow imports pandas, if there is one, when it first makes an array of what might be of pandas. That takes a fifth of
the time of a command that appends a few rows. Nothing of pandas is there where nobody has imported it.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def keep_pandas_out() -> None:
    """Have Arrow not look for pandas by itself in this process; asked for a data frame, it still finds it.

    Does nothing where pandas was imported: somebody uses it.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array(range(0))  # it looks once
    finally:
        sys.meta_path.remove(finder)
