"""Options and arguments that several commands have in common."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from carnac.cli.completion.values import complete_datasource, complete_moment

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document.", metavar="")
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="REVISION",
        help="A revision, a time or a tag. Default: the newest.",
        autocompletion=complete_moment,
    ),
]
Datasource: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DATASOURCE",
        help="The datasource's name.",
        show_default=False,
        autocompletion=complete_datasource,
    ),
]
DatasourceIfAny: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="DATASOURCE",
        help="The datasource's name.",
        show_default=False,
        autocompletion=complete_datasource,
    ),
]
IntervalText: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--interval",
        metavar="A/B",
        help="ISO 8601, UTC; the end is excluded: 2013-02-01/2013-03-01 or 2013-02/P1M.",
    ),
]
Message: TypeAlias = Annotated[
    str, typer.Option("--message", "-m", metavar="TEXT", help="For people who read the log.")
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.", metavar="")
]
