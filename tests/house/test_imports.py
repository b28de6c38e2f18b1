"""What an import costs: nothing heavy before it is needed, and no dependency that is not declared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.house.checkout import ROOT, name_of, outline_of, python_files, text_of

JVM = {"pyspark", "py4j"}
HTTP = {"fastapi", "httpx", "uvicorn"}
HEAVY = (
    JVM | HTTP | {"duckdb", "numba", "numpy", "pandas", "polars", "pyarrow", "sqlalchemy", "fsspec"}
)
MODULES_BY_IMPORT = {
    "yaml": "pyyaml",
    "_datasketches": "datasketches",
    "google": "protobuf",
    "pydantic_core": "pydantic",
    "starlette": "fastapi",
    "vl_convert": "vl_convert_python",
}
NOT_FOR_A_QUERY = re.compile(
    r"(alembic|asyncio|http|multiprocessing|numpy|pandas|polars|pyspark|rich|sqlalchemy|ssl|unittest)$|"
    r"carnac\.(api|console|jobs|overlord|rows|simulation|spark|specs)$|"
    r"carnac\.core\.(balancing|locks|tasks)$|"
    r"carnac\.core\.log\.(allocation|drafts|late_ledger|publishing|retention|reverting)$|"
    r"carnac\.core\.compaction\.(?!plan$|plan\.groups$)|"
    r"carnac\.metadata\.(records\.(allocation|tasks)|locking\.locks|publish\.writer)$|"
    r"carnac\.metadata\.(upkeep\.\w+|schema\.(tables|upgrade))$|"
    r"carnac\.store\.(compacting|history|upkeep|writing)$"
)
"""Each takes milliseconds to load; together they took longer than the rest."""
COLD = """
import atexit, json, sys
sys.argv = {arguments!r}
atexit.register(lambda: print(json.dumps(sorted(sys.modules))))
from carnac.cli import main
sys.exit(main())
"""
REPORT = "import sys, json, {module}; {then}; print(json.dumps(sorted(n for n in sys.modules if '.' not in n)))"


def loaded_by(module: str, *, then: str = "pass") -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after one import."""
    command = [sys.executable, "-c", REPORT.format(module=module, then=then)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(result.stdout))


@pytest.mark.parametrize("module", ["carnac", "carnac.core", "carnac.specs", "carnac.config"])
def test_the_package_itself_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(module) & HEAVY == set()


@pytest.mark.slow
def test_the_format_costs_a_session_nothing_that_does_not_want_it() -> None:
    more = loaded_by("pyspark_carnac") - loaded_by("pyspark.sql.datasource")
    assert more == {"carnac", "pyspark_carnac"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "carnac.bootstrap.store",
        "carnac.cli",
        "carnac.deep_storage",
        "carnac.metadata",
        "carnac.jobs",
        "carnac.spark.java",
        "carnac.query",
        "carnac.store",
    ],
)
def test_reading_and_metadata_never_load_spark(module: str) -> None:
    assert loaded_by(module) & JVM == set()


@pytest.mark.slow
def test_commands_load_no_http_before_they_need_it() -> None:
    assert loaded_by("carnac.cli.commands", then="carnac.cli.commands.load()") & HTTP == set()
    assert loaded_by("carnac.bootstrap.tasks") & HTTP == set()


@pytest.mark.slow
def test_a_cold_query_loads_only_what_it_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "carnac", "--store", str(tmp_path), "init"]
    subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    arguments = ["carnac", "--store", str(tmp_path), "sql", "--format", "jsonl", "SELECT 1"]
    program = COLD.format(arguments=arguments)
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    answer, loaded = map(json.loads, result.stdout.splitlines())
    assert answer == {"1": 1}
    assert [name for name in loaded if NOT_FOR_A_QUERY.match(name)] == []
    assert {"duckdb", "pyarrow", "carnac.query.engine"} <= set(loaded)


def declared_dependencies() -> set[str]:
    """Return the names that pyproject.toml allows the package to import."""
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in extras for line in extras[name])]
    names = (re.split(r"[\[<>=;\s]", line)[0] for line in lines)
    return {name.lower().replace("-", "_") for name in names}


@pytest.mark.slow
def test_every_import_of_the_package_is_declared() -> None:
    allowed = declared_dependencies() | set(sys.stdlib_module_names) | {"carnac"}
    undeclared = set()
    for path in python_files():
        if not path.is_relative_to(ROOT / "src"):
            continue
        tops = {name.partition(".")[0] for name in outline_of(path).imports}
        tops = {MODULES_BY_IMPORT.get(top, top) for top in tops}
        undeclared |= {f"{name_of(path)}: {top}" for top in tops - allowed}
    assert undeclared == set()


def circle_of(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a circle of modules that import one another; nothing if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules_import_in_no_circle_not_even_for_types() -> None:
    graph = grimp.build_graph("carnac", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert sum(map(len, imports.values())) > 1_000
    assert circle_of(imports) == []
    assert circle_of({"a": ["b"], "b": ["c"], "c": ["b"]}) in (["b", "c", "b"], ["c", "b", "c"])
