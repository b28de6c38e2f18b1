"""The log of commits as a table."""

from __future__ import annotations

from carnac.cli.output import Output
from carnac.cli.tables import columns_of, format_bytes, format_count, second_ms
from carnac.core.log.commits import CommitSummary


def print_log(output: Output, commits: tuple[CommitSummary, ...], tags: dict[int, str]) -> None:
    """Print commits as a table."""
    columns = columns_of(
        "revision# | time (UTC)! | kind | datasource | segments# | rows# | size# | message"
    )
    output.table(columns, [_log_row(commit, tags) for commit in commits])


def _log_row(commit: CommitSummary, tags: dict[int, str]) -> list[str]:
    names = [item.datasource for item in commit.datasources] + [
        f"lookup {name}" for name in commit.lookups
    ]
    tag_text = f"[{tags[commit.revision]}] " if commit.revision in tags else ""
    return [
        str(commit.revision),
        second_ms(commit.at_ms),
        commit.kind.value,
        ", ".join(names),
        format_count(sum(item.segments for item in commit.datasources)),
        format_count(sum(item.rows for item in commit.datasources)),
        format_bytes(sum(item.size_bytes for item in commit.datasources)),
        tag_text + commit.message,
    ]
