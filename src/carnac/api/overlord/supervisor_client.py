"""Supervisors of an overlord elsewhere, over HTTP: the same calls, values and errors as beside the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from carnac.api.client import ANSWER_MAX_BYTES, OverlordClient
from carnac.core.json_text import parse_json
from carnac.core.texts import check_name
from carnac.errors import Invalid, Unavailable

_SUPERVISORS = "/druid/indexer/v1/supervisor"


class SupervisorClient(OverlordClient):
    """The supervisors of an overlord. Safe for many threads."""

    def submit_spec(self, spec: Mapping[str, object]) -> str:
        """Keep a spec, in place of the one of the same id; return that id."""
        with self._reading("POST", _SUPERVISORS, json=spec) as answer:
            return str(answer["id"])

    def states(self) -> Sequence[Mapping[str, Any]]:
        """Return how all supervisors stand, in Druid's words."""
        data = self._call("GET", f"{_SUPERVISORS}?state=true")
        try:
            found = parse_json(data, "answer", limit=ANSWER_MAX_BYTES)
        except Invalid as error:
            found = error.message
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise Unavailable(f"the server at {self._url} is no overlord of this version")
        return found

    def status(self, supervisor_id: str) -> Mapping[str, Any]:
        """Return how a supervisor stands, whole, in Druid's words."""
        with self._reading("GET", _at(supervisor_id, "status")) as answer:
            return answer

    def spec(self, supervisor_id: str) -> Mapping[str, object]:
        """Return a spec as it was submitted."""
        with self._reading("GET", _at(supervisor_id)) as answer:
            return answer

    def suspend(self, supervisor_id: str) -> None:
        """Have a supervisor read nothing until it is resumed."""
        self._call("POST", _at(supervisor_id, "suspend"))

    def resume(self, supervisor_id: str) -> None:
        """Have a supervisor read on from where it was."""
        self._call("POST", _at(supervisor_id, "resume"))

    def reset(self, supervisor_id: str) -> None:
        """Forget the position of a supervisor."""
        self._call("POST", _at(supervisor_id, "reset"))

    def terminate(self, supervisor_id: str) -> None:
        """End a supervisor."""
        self._call("POST", _at(supervisor_id, "terminate"))


def _at(supervisor_id: str, what: str = "") -> str:
    name = quote(check_name(supervisor_id, "the id of a supervisor"), safe="")
    return f"{_SUPERVISORS}/{name}/{what}".rstrip("/")
