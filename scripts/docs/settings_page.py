"""`docs/reference/settings.md`: every setting, from the model that reads them."""

from __future__ import annotations

import re

from carnac.config import PREFIX, Settings, SparkConf

_INTRO = """\
# Settings

<!-- Made by `make docs`; do not edit. -->

This page lists all settings. They are read from three places, and a later one overrides an earlier one:

1. `carnac.toml` in the working directory, or the file that `CARNAC_CONFIG` names;
2. the environment; an empty variable counts as not set;
3. the caller (`--store`, `carnac.open(…, spark_master="local[2]")`).

An unknown setting of the file or of the caller is an error, and so is a variable whose name is nearly that of a
setting. Other variables that begin with `CARNAC_` are passed over: others set some, too, such as Kubernetes.

```toml
# carnac.toml
store = "events"
spark_master = "spark://head:7077"
retention_age_ms = 2_592_000_000

[spark_conf]
"spark.executor.memory" = "8g"
```

| setting | environment | type | default | meaning |
|---|---|---|---|---|
"""


def render() -> str:
    """Return the page, as Markdown."""
    return _INTRO + "".join(_row(name) for name in Settings.model_fields)


def _row(name: str) -> str:
    field = Settings.model_fields[name]
    kind = str(getattr(field.annotation, "__name__", field.annotation))
    kind = (
        str(field.annotation)
        if "|" in str(field.annotation) or "[" in str(field.annotation)
        else kind
    )
    kind = re.sub(r"[a-z_]+\.(?:[a-z_]+\.)*([A-Z])", r"\1", kind)
    kind = (
        kind.replace(" | None", "")
        .replace("SecretUrl", "str")
        .replace("SparkConf", "dict[str, str]")
    )
    kind = kind.replace("|", "\\|")
    default = field.get_default(call_default_factory=True)
    shown = "–" if default is None or default == SparkConf({}) else f"`{_number(default)}`"
    meaning = (field.description or "").replace("|", "\\|")
    return f"| `{name}` | `{PREFIX}{name.upper()}` | `{kind}` | {shown} | {meaning} |\n"


def _number(value: object) -> str:
    return f"{value:_}" if isinstance(value, int) else str(value)
