"""Random SELECT statements over the datasource `events`, the way people and dashboards write them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

_PARAMETER = re.compile(r"\$(\d+)")
TIMES = ("2013-01-02 05:00:00", "2013-01-03", "2013-01-06 02:30:00", "2013-02-11", "2013-01-01")


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement.

    Attributes:
        is_ordered: Its rows come in one order: it orders by all that it selects.
        all_rows: If it takes any so many rows: the statement without that limit, and how many.
    """

    sql: str
    parameters: Sequence[object] = ()
    is_ordered: bool = False
    all_rows: tuple[str, int] | None = None


@dataclass(slots=True)
class Statements:
    """Makes statements.

    Args:
        rng: Decides everything.
    """

    rng: random.Random
    _parameters: list[object] = field(default_factory=list)
    _dot: str = ""

    def make(self) -> Asked:
        """Return the next one."""
        self._parameters, self._dot = [], ""
        kind = self.rng.choices(
            (self._grouped, self._rows, self._any_rows, self._distinct, self._gathered),
            (9, 5, 1, 1, 5),
        )[0]
        return self._written(kind())

    def _written(self, asked: Asked) -> Asked:
        """Return it with the parameters of what was made and chosen: DuckDB wants as many as it is given."""
        used = sorted({int(one) for one in _PARAMETER.findall(asked.sql)})
        numbers = {old: new for new, old in enumerate(used, start=1)}

        def renumbered(sql: str) -> str:
            return _PARAMETER.sub(lambda found: f"${numbers[int(found[1])]}", sql)

        all_rows = asked.all_rows and (renumbered(asked.all_rows[0]), asked.all_rows[1])
        values = tuple(self._parameters[old - 1] for old in used)
        return replace(asked, sql=renumbered(asked.sql), parameters=values, all_rows=all_rows)

    # expressions

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _column(self, *names: str) -> str:
        name = self.rng.choice(names)
        return f"{self._dot}{name.upper() if self._chance(0.1) else name}"

    def _number(self) -> str:
        n, x = self._column("n"), self._column("x", "w", "f")
        return self.rng.choice(
            (
                n, n, x, x, f"{n} % 7", f"{x} * 2", f"coalesce({x}, 0)", f"length({self._column('s')})",
                f"abs({x}) + 1", f"CASE WHEN {self._column('s')} IS NULL THEN 0 ELSE {x} END",
                f"extract(hour FROM {self._column('__time')})", f"CAST({x} AS DECIMAL(9, 2))", f"{n} // 1000",
                f"len({self._column('tags')})", f"CAST({self._column('b')} AS INTEGER)",
            )
        )  # fmt: skip

    def _text(self) -> str:
        s, k = self._column("s"), self._column("k")
        found = [s, s, k, k, f"upper({s})", f"coalesce({s}, '?')", f"{k} || {s}", f"{k}[1:2]"]
        if self._dot == "e.":
            found += ["l.v", "coalesce(l.v, 'none')"]
        return self.rng.choice(found)

    def _time(self) -> str:
        t = self._column("__time")
        return self.rng.choice(
            (
                f"date_trunc('hour', {t})", f"date_trunc('day', {t})", f"time_bucket(INTERVAL '6 hours', {t})",
                f"CAST({t} AS DATE)", f"date_trunc('day', {t} AT TIME ZONE 'Europe/Berlin')", f"FLOOR({t} TO MONTH)",
                f"{t} + INTERVAL 1 MONTH", t,
            )
        )  # fmt: skip

    def _value(self) -> str:
        return self.rng.choices(
            (self._number, self._text, self._time, self._condition), (4, 5, 3, 1)
        )[0]()

    def _literal(self, value: object) -> str:
        if self._chance(0.25):
            self._parameters.append(value)
            return f"${len(self._parameters)}"
        return f"'{value}'" if isinstance(value, str) else str(value)

    def _condition(self, depth: int = 2) -> str:
        if depth and self._chance(0.35):
            one, other = self._condition(depth - 1), self._condition(depth - 1)
            word = self.rng.choice(("AND", "OR"))
            return f"({one} {word} {other})" if self._chance(0.8) else f"NOT ({one} {word} {other})"
        n, x, s, t = (self._column(name) for name in ("n", "x", "s", "__time"))
        rng = self.rng
        return rng.choice(
            (
                lambda: f"{n} % 3 = {rng.randrange(3)}",
                lambda: (
                    f"{x} {rng.choice(('>', '<=', '<>'))} {self._literal(rng.randrange(-9, 9) / 2)}"
                ),
                lambda: f"{n} > {self._literal(rng.choice((-5, 0, 2**62 + 3)))}",
                lambda: f"{s} IN ('a', {self._literal('ü')}, '')",
                lambda: f"{s} IS {rng.choice(('', 'NOT '))}NULL",
                lambda: f"{self._column('k')} = {self._literal(rng.choice(('k1', 'k2', 'none')))}",
                lambda: f"{s} LIKE {self._literal('a%')}",
                lambda: f"{t} {rng.choice(('>=', '<'))} {self._literal(rng.choice(TIMES))}",
                lambda: f"{t} BETWEEN TIMESTAMP '{TIMES[4]}' AND TIMESTAMP '{rng.choice(TIMES)}'",
                lambda: f"{t} < now() - INTERVAL 1 DAY",
                lambda: f"{self._column('b')} IS NOT FALSE",
                lambda: f"list_contains({self._column('tags')}, 'p')",
                lambda: f"CAST({t} AS DATE) = DATE '2013-01-06'",
                lambda: f"{x} = {x}",
            )
        )()

    def _aggregate(self) -> str:
        call = self.rng.choices(
            (self._plain_aggregate, self._moment, self._distinct_values, self._other_aggregate),
            (9, 3, 5, 2),
        )[0]()
        call += f" FILTER (WHERE {self._condition(1)})" if self._chance(0.25) else ""
        is_rounded = call.startswith(("var", "std", "covar", "regr"))
        return f"round({call}, 6)" if is_rounded else call

    def _plain_aggregate(self) -> str:
        name = self.rng.choice(
            (
                "count(*)", "count", "sum", "sum", "avg", "avg", "min", "max", "bool_and", "bool_or", "count_if",
                "bit_xor",
            )
        )  # fmt: skip
        if name == "count(*)":
            return name
        if name in {"bool_and", "bool_or", "count_if"}:
            return f"{name}({self._condition(1)})"
        if name == "bit_xor":
            return f"bit_xor({self._column('n')} % 1000)"
        number = self._number() if name in {"sum", "avg"} else self._value()
        return f"{name}({number})"

    def _moment(self) -> str:
        name = self.rng.choice(
            ("var_pop", "var_samp", "variance", "stddev", "stddev_pop", "stddev_samp", "covar_samp", "regr_sxx")
        )  # fmt: skip
        number = self.rng.choice((self._column("x", "w", "f"), f"{self._column('n')} % 7"))
        more = f", {self._column('w', 'f')}" if name in {"covar_samp", "regr_sxx"} else ""
        return f"{name}({number}{more})"

    def _distinct_values(self) -> str:
        name = self.rng.choice(("count", "count", "count", "sum", "avg", "max"))
        value = self._value() if name in {"count", "max"} else self._number()
        return f"{name}(DISTINCT {value})"

    def _other_aggregate(self) -> str:
        return self.rng.choice(
            (
                f"arg_max({self._column('x')} * 3, {self._column('x')})",
                f"arg_min(date_trunc('hour', {self._column('__time')}), {self._column('__time')})",
                f"any_value(abs({self._column('x')}) * 0)",
                f"approx_count_distinct_ds_hll({self._text()})",
                f"approx_count_distinct({self._value()})",
                f"approx_count_distinct_ds_theta({self._column('n', 's', 'x')})",
            )
        )

    def _measure(self) -> str:
        one = self._aggregate()
        return self.rng.choice(
            (
                one, one, one, f"sum({self._column('x')}) + count(*)", f"round(avg({self._column('x')}), 2)",
                f"CASE WHEN count(*) > {self._literal(3)} THEN 'many' ELSE 'few' END", f"coalesce({one}::VARCHAR, '-')",
                f"max({self._column('f')}) - min({self._column('f')})", f"sum({self._column('n')}) / count(*)",
            )
        )  # fmt: skip

    # statements

    def _source(self) -> str:
        if self._chance(0.2):
            self._dot = "e."
            kind = self.rng.choice(("JOIN", "LEFT JOIN"))
            return f"events e {kind} lookup.names l ON e.k = l.k"
        if self._chance(0.2):
            self._dot = "t."
            return "events AS t"
        return "druid.events" if self._chance(0.1) else "events"

    def _where(self) -> str:
        if self._chance(0.05):
            return self.rng.choice((" WHERE false", f" WHERE {self._dot}__time > '2030-01-01'"))
        return f" WHERE {self._condition()}" if self._chance(0.7) else ""

    def _alias(self, place: int, letter: str) -> str:
        """Return a name for what is selected, now and then that of a column."""
        return self.rng.choice(("x", "n", "s", "k")) if self._chance(0.08) else f"{letter}{place}"

    def _order(self, items: Sequence[str], *, more: Sequence[str] = ()) -> str:
        """Return ORDER BY by some first, and by all items."""
        first = [str(self.rng.randrange(len(items)) + 1)] if self._chance(0.5) else []
        first += [one for one in more if self._chance(0.5)]
        how = (" DESC", " ASC", "", " NULLS FIRST", " DESC NULLS LAST")
        keys = [*first, *(str(place + 1) for place in range(len(items)))]
        return " ORDER BY " + ", ".join(f"{key}{self.rng.choice(how)}" for key in keys)

    def _limit(self) -> str:
        if not self._chance(0.6):
            return ""
        rows = self._literal(self.rng.choice((0, 1, 3, 7, 50)))
        return f" LIMIT {rows}" + (f" OFFSET {self.rng.randrange(4)}" if self._chance(0.4) else "")

    def _grouped(self) -> Asked:
        source = self._source()
        groups = [self._value() for _ in range(self.rng.choices((0, 1, 2, 3), (2, 4, 3, 1))[0])]
        measures = [self._measure() for _ in range(self.rng.randint(0 if groups else 1, 3))]
        where = self._where()
        if not groups and self._chance(0.2):  # an answer of one row all the same
            measures.append(f"count({self._column('x')})")
            where = f" WHERE {self._dot}__time > '2030-01-01'"
        style = self.rng.choice(("expressions", "aliases", "ordinals", "all"))
        names = [self._alias(place, "g") for place in range(len(groups))]
        called = [self._alias(place, "m") for place in range(len(measures))]
        items = [f"{one} AS {name}" for one, name in zip(groups, names, strict=True)]
        items += [f"{one} AS {name}" for one, name in zip(measures, called, strict=True)]
        words = {
            "expressions": groups,
            "aliases": names,
            "ordinals": [str(place + 1) for place in range(len(groups))],
            "all": ["ALL"],
        }[style]
        group = f" GROUP BY {', '.join(words)}" if groups else ""
        having = ""
        if groups and self._chance(0.4):
            conditions = (
                f"{self._aggregate()} IS NOT NULL",
                "count(*) > 2",
                f"{names[0]} IS NOT NULL",
            )
            having = f" HAVING {self.rng.choice(conditions)}"
        order = ""
        if self._chance(0.7):
            more = [
                *called,
                "count(*)",
                *groups[:1],
                *(f"coalesce({one}::VARCHAR, '')" for one in called),
            ]
            order = self._order(items, more=more)
        distinct = "DISTINCT " if self._chance(0.1) and not order else ""
        sql = f"SELECT {distinct}{', '.join(items)} FROM {source}{where}{group}{having}{order}"
        limit = self._limit() if order else ""
        return Asked(sql + limit, is_ordered=bool(order))

    def _items(self) -> tuple[list[str], list[str]]:
        """Return what is selected, and as many expressions for places in it as there are."""
        if self._chance(0.25) and self._dot != "e.":
            return ["*"], ["x"] * 9
        found = [self._value() for _ in range(self.rng.randint(1, 4))]
        named = [
            f"{one} AS {self._alias(i, 'c')}" if self._chance(0.5) else one
            for i, one in enumerate(found)
        ]
        return named, found

    def _rows(self) -> Asked:
        source = self._source()
        named, places = self._items()
        where = self._where()
        more = [self._value(), "coalesce(x::VARCHAR, '')"][: 1 if self._dot else 2]
        order = self._order(places, more=more) if self._chance(0.7) else ""
        limit = self._limit() if order else ""
        sql = f"SELECT {', '.join(named)} FROM {source}{where}{order}{limit}"
        return Asked(sql, is_ordered=bool(order))

    def _any_rows(self) -> Asked:
        source = self._source()
        named, _ = self._items()
        where = self._where()
        whole = f"SELECT {', '.join(named)} FROM {source}{where}"
        rows = self.rng.choice((0, 3, 20, 1000))
        return Asked(f"{whole} LIMIT {rows}", all_rows=(whole, rows))

    def _distinct(self) -> Asked:
        source = self._source()
        values = [self._value() for _ in range(self.rng.randint(1, 2))]
        where = self._where()
        order = self._order(values) if self._chance(0.6) else ""
        sql = f"SELECT DISTINCT {', '.join(values)} FROM {source}{where}{order}"
        limit = self._limit() if order else ""
        return Asked(sql + limit, is_ordered=bool(order))

    def _gathered(self) -> Asked:
        group, number = self._text(), self._number()
        where, other = self._where(), self._where()
        sql = self.rng.choice(
            (
                f"SELECT {group} g, count(DISTINCT {number}) FROM events{where} GROUP BY 1",
                f"SELECT median({number}), quantile_cont({self._column('x')}, 0.9) FROM events{where}",
                f"SELECT {group} g, string_agg(k, ',' ORDER BY __time, n, x, k) FROM events{where} GROUP BY g",
                f"SELECT {group} g, {self._column('k')} h, count(*), count(DISTINCT {number}) FROM events{where} "
                f"GROUP BY {self.rng.choice(('ROLLUP (g, h)', 'CUBE (g, h)', 'GROUPING SETS ((g, h), h)'))}",
                f"SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n, x, s, __time) FROM events{where}",
                f"WITH t AS (SELECT {group} g, {number} m FROM events{where}) SELECT g, sum(m) FROM t GROUP BY g",
                f"SELECT g, max(c) FROM (SELECT {group} g, count(*) c FROM events{where} GROUP BY 1) GROUP BY g",
                f"SELECT {group} FROM events{where} UNION ALL SELECT s FROM events{other}",
                f"SELECT {group} FROM events{where} EXCEPT SELECT k FROM events{other}",
                f"SELECT count(*), sum(e.x) FROM events e JOIN hits h ON e.k = h.k AND h.hits > 1 "
                f"WHERE {self._joined()}",
                f"SELECT e.k, sum(h.hits) FROM events e LEFT JOIN hits h ON e.k = h.k AND h.total > 0 "
                f"WHERE {self._joined()} GROUP BY e.k",
                f"SELECT e.k, e.n, h.total FROM events e LEFT JOIN hits h ON e.k = h.k AND h.total > 1 "
                f"WHERE (h.total IS NULL OR h.total > 300) AND {self._joined()}",
                f"SELECT count(*), min(a.s) FROM events a JOIN events b ON a.k = b.k AND a.s || 'b' = b.s "
                f"WHERE a.x * {self._literal(2)} > 1 AND b.x * 2 < {self._literal(3)}",
                f"SELECT e.k, h.k FROM events e FULL JOIN hits h ON e.k = h.k AND e.n = h.hits WHERE {self._joined()}",
                f"SELECT {number} FROM events WHERE k IN (SELECT k FROM hits WHERE hits > 2) AND {self._condition()}",
                f"SELECT k, (SELECT max(total) FROM hits WHERE hits.k = events.k) FROM events{where}",
                "SELECT k, round(hll_estimate(hll_merge(users))) FROM hits GROUP BY k",
                f"SELECT {group} g, n FROM events WHERE x < (SELECT avg(x) FROM events{where})",
                f"SELECT {group} g, max(x) - (SELECT min(x) FROM events{other}) FROM events{where} GROUP BY ALL",
                f"SELECT g, count(*), max(c) FROM (SELECT {group} g, count(DISTINCT {number}) c FROM events{where} "
                f"GROUP BY 1 UNION ALL SELECT k, sum(hits) FROM hits GROUP BY k) GROUP BY g",
                f"WITH t AS (SELECT k g, avg(x) m FROM events{where} GROUP BY 1) "
                f"SELECT g, m, rank() OVER (ORDER BY m, g), total FROM t JOIN hits ON g = k",
                f"SELECT count(*), sum(e.x), count(DISTINCT h.total) FROM events e LEFT JOIN hits h ON e.k = h.k "
                f"AND e.__time < h.__time WHERE {self._joined()}",
                f"SELECT unnest(tags) tag FROM events{where}",
                f"SELECT l.k, count(x) FROM events e RIGHT JOIN lookup.names l "
                f"ON e.k = l.k AND {self._joined()} GROUP BY 1",
            )
        )  # fmt: skip
        return Asked(sql)

    def _joined(self) -> str:
        """Return a condition on the table `e`."""
        dot, self._dot = self._dot, "e."
        found = self._condition(1)
        self._dot = dot
        return found
