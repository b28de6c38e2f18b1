"""What Druid gives for its functions of JSON over the row of the oracle."""

from __future__ import annotations

DOCUMENTS: list[tuple[str, object]] = [
    ("json_value(nested, '$.s')", "text"),
    ("json_value(nested, '$.a.b[0]', 'LONG')", 10),
    ("json_value(nested, '$.a.b[1]', 'DOUBLE')", 20.5),
    ("json_value(nested, '$.o')", None),
    ("json_value(nested, '$.none')", None),
    ("json_value(nested, '$.missing')", None),
    ("json_value(nested, '$[\\'s\\']')", "text"),
    ("json_value(nested, '$.t')", None),
    ("json_value(nested, '$.t[0]')", "[a] b"),
    ("json_value(nested, '$[\\'t\\'][1]')", "{c}"),
    ("json_value(nested, '$.t[2]')", "[1]"),
    ("json_value('\"[a]\"', '$')", "[a]"),
    ("json_value('[\"a\"]', '$')", None),
    ("json_query(nested, '$.o')", '{"k":1}'),
    ("json_keys(nested, '$.o')", ["k"]),
    ("parse_json('{\"a\": 1}')", '{"a": 1}'),
    ("parse_json('{bad')", None),
    ("try_parse_json('[1]')", "[1]"),
    ("to_json_string(x)", '"foo"'),
    ("to_json_string(y)", "2"),
    ("json_object('k', x, 'n', null)", '{"k":"foo","n":null}'),
]
