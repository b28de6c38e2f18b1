"""Reading spec files, and overriding parts of them from the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from carnac.core.texts import at_most
from carnac.errors import Invalid, NotFound

if TYPE_CHECKING:
    from carnac.specs.ingest.spec import IngestSpec


def read_text(file: str, what: str = "spec") -> str:
    """Return the text of a file (`-`: standard input); `what` it should hold, for messages.

    Raises:
        NotFound: There is no such file.
        Invalid: It is no text, or too long.
    """
    try:
        if file == "-":
            stdin: TextIO = sys.stdin
            return at_most(stdin.read, f"{what} from standard input")
        with Path(file).open(encoding="utf-8-sig") as stream:
            return at_most(stream.read, f"{what} {file}")
    except IsADirectoryError:
        raise Invalid(f"{what} {file} is a directory; give a file", path=file) from None
    except OSError as error:
        raise NotFound(f"{what} {file} cannot be read: {error.strerror}", path=file) from None
    except UnicodeDecodeError:
        raise Invalid(f"{what} {file} is not text in UTF-8", path=file) from None


def load_spec_file(
    file: str,
    *,
    inputs: list[str] | None = None,
    mode: Literal["append", "replace"] | None = None,
) -> IngestSpec:
    """Return the spec in a file (`-`: standard input), with the input paths and the mode replaced if given.

    Raises:
        NotFound: There is no such file.
        Invalid: The spec is wrong.
    """
    from carnac.specs.load import load_spec

    text = read_text(file)
    name = "from standard input" if file == "-" else file
    spec = load_spec(text, has_rows=bool(inputs), name=name)
    if not inputs and mode is None:
        return spec
    block = spec.to_json_dict()
    if inputs:
        kept = block.get("input") or {}
        block["input"] = {
            "paths": inputs,
            **{key: kept[key] for key in ("inputFormat",) if key in kept},
        }
    if mode is not None and mode != spec.mode:
        block["mode"] = mode
        block.pop("replaceScope", None)
    return load_spec(block)
