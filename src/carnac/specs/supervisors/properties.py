"""Druid's `consumerProperties`, which are those of Kafka's Java client, as the library calls them.

Properties that open a file of code, run a program or take part in a group are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from carnac.specs.druid.fields import Block

SERVERS = "bootstrap.servers"
_SAME = frozenset(
    (
        SERVERS, "client.dns.lookup",
        "client.id", "client.rack", "fetch.max.bytes", "fetch.min.bytes", "isolation.level",
        "max.partition.fetch.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "sasl.kerberos.service.name",
        "sasl.mechanism", "sasl.mechanisms", "sasl.password", "sasl.username", "security.protocol",
        "session.timeout.ms",
        "socket.connection.setup.timeout.ms", "socket.timeout.ms", "ssl.ca.location", "ssl.ca.pem",
        "ssl.certificate.location", "ssl.certificate.pem", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
        "ssl.key.location", "ssl.key.password", "ssl.key.pem", "ssl.keystore.location", "ssl.keystore.password",
    )
)  # fmt: skip
"""Properties that the library calls so, too."""
_RENAMED = {"fetch.max.wait.ms": "fetch.wait.max.ms"}
_OWN = "each range is read from the position in the log, without a group"
_JAVA = "the library decides"
_IGNORED = {
    **dict.fromkeys(
        "group.id enable.auto.commit auto.commit.interval.ms auto.offset.reset key.deserializer "
        "value.deserializer max.poll.records max.poll.interval.ms".split(),
        _OWN,
    ),
    **dict.fromkeys(
        "request.timeout.ms default.api.timeout.ms receive.buffer.bytes metadata.max.age.ms "
        "connections.max.idle.ms heartbeat.interval.ms ssl.protocol".split(),
        _JAVA,
    ),
}
_INSTEAD = {
    "ssl.truststore.location": "give the certificates as ssl.ca.location, a PEM file",
    "ssl.truststore.password": "give the certificates as ssl.ca.location, a PEM file",
    "ssl.truststore.certificates": "call it ssl.ca.pem",
    "ssl.keystore.key": "call it ssl.key.pem",
    "ssl.keystore.certificate.chain": "call it ssl.certificate.pem",
    "druid.dynamic.config.provider": "write the properties themselves; what is secret in them is shown as ***",
}
_LOGIN = re.compile(
    r"""[\w.]*\.(?:Plain|Scram)LoginModule\s+required\s+(?P<options>(?:\w+\s*=\s*"[^"]*"\s*+)+);?\s*"""
)
_OPTION = re.compile(r'(\w+)\s*=\s*"([^"]*)"')


def read_properties(block: Block) -> dict[str, str]:
    """Return the properties of a consumer as the library calls them; problems of them are noted."""
    found: dict[str, str] = {}
    for name, value in block.rest().items():
        if isinstance(value, Mapping | list) and name not in _INSTEAD:
            block.problem(name, "must be a text")
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if name in _IGNORED:
            block.note(name, _IGNORED[name])
        elif name == "sasl.jaas.config":
            found |= _login(block, text)
        elif name in _SAME or name in _RENAMED:
            found[_RENAMED.get(name, name)] = text
        else:
            why = _INSTEAD.get(name, f"there are {', '.join(sorted(_SAME))}")
            block.problem(name, f"is not supported; {why}")
    if not found.get(SERVERS, "").strip():
        block.problem(SERVERS, "is required: host:port of a broker, or several with commas between")
    return found


def _login(block: Block, text: str) -> dict[str, str]:
    """Return the user and password that Java's form of them holds."""
    match = _LOGIN.fullmatch(text.strip())
    options = dict(_OPTION.findall(match["options"])) if match is not None else {}
    if not {"username", "password"} <= options.keys():
        block.problem(
            "sasl.jaas.config",
            "is read for PlainLoginModule and ScramLoginModule with username and password; else use sasl.username "
            "and sasl.password",
        )
        return {}
    return {"sasl.username": options["username"], "sasl.password": options["password"]}
