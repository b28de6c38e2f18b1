"""Pages of HTML that hold what strangers wrote: names, messages, tags.

A page is whole in itself. Its Content-Security-Policy runs the scripts that Carnac ships, known by their hashes, and
nothing else: no script of a stranger, no evaluated text, no network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from carnac.core.showing import REPLACEMENT, UNSHOWABLE

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_IN_SCRIPT = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"}


def embed_json(value: object) -> str:
    """Return a value as JSON that may stand in a `<script>`: it holds no `<`, `>`, `&`, and ASCII only."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: _IN_SCRIPT[found[0]], text)


def clean_texts(value: object) -> object:
    """Return plain data with a replacement for each character that a picture cannot show."""
    if isinstance(value, str):
        return UNSHOWABLE.sub(REPLACEMENT, value)
    if isinstance(value, Mapping):
        return {clean_texts(key): clean_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_texts(item) for item in value]
    return value


def fill_page(template: str, parts: Mapping[str, str], *, bundle: str = "") -> str:
    """Return a page: `{{name}}` is replaced by a part, `{{policy}}` by the policy for the page's scripts.

    Args:
        template: Template of Carnac's own; code in its `<script>` tags without attributes runs, so no part goes there.
        parts: Escaped HTML by name; text in it that looks like a place stays as it is.
        bundle: A script that runs where the template says `{{bundle}}`.
    """
    own = [found[1] for found in _SCRIPT.finditer(template)]
    policy = policy_for(bundle if script == "{{bundle}}" else script for script in own)
    whole = {**parts, "policy": policy, "bundle": bundle}
    return _PLACE.sub(lambda found: whole[found[1]], template)


def policy_for(scripts: Iterable[str]) -> str:
    """Return the Content-Security-Policy of a page with these inline scripts, as a `<meta>`."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
