"""The parts of Spark for programs of users, left out where only Carnac's own jobs run.

Spark looks for extensions in all jars that it has, and its own machine learning is one: it has Scala read half of its
own types to register two functions that no SQL text can name, which takes a fifth of the processor time of a short job.
And PySpark asks of all that it hands to Java whether it is NumPy's, for which it imports what its own tests need,
pandas among that: a third of what a command imports.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

OF_USERS = "spark.sql.extensions"
"""Extensions that a user has set are looked for by the class loader of the thread, too."""
_LISTED = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
_OF_SPARK = "/spark-mllib_"


@contextmanager
def without_machine_learning(context: SparkContext) -> Iterator[None]:
    """Have sessions that this thread starts in the block do without; with it, where there are other extensions.

    The thread of the JVM that serves this one looks for them by a loader of classes that knows none.
    """
    jvm = context._jvm  # noqa: SLF001 - pyspark has no public word for it
    # else each call may be served by another thread; py4j itself is no dependency of ours
    is_pinned = type(context._gateway).__name__ == "ClientServer"  # noqa: SLF001
    if jvm is None or not is_pinned or context.getConf().get(OF_USERS):
        yield
        return
    thread = jvm.java.lang.Thread.currentThread()
    usual = thread.getContextClassLoader()
    found = usual.getResources(_LISTED) if usual is not None else None
    places = []
    while found is not None and found.hasMoreElements():
        places.append(str(found.nextElement().toString()))
    if len(places) != 1 or _OF_SPARK not in places[0]:
        yield
        return
    ways = jvm.py4j.reflection
    ways.ReflectionUtil.setClassLoadingStrategy(ways.RootClassLoadingStrategy())
    thread.setContextClassLoader(jvm.java.lang.ClassLoader.getPlatformClassLoader())
    try:
        yield
    finally:
        thread.setContextClassLoader(usual)
        ways.ReflectionUtil.setClassLoadingStrategy(ways.CurrentThreadClassLoadingStrategy())


def take_no_numpy(gateway: Any) -> None:
    """Have the way to a JVM take no numbers and arrays of NumPy; objects that it made before may take them."""
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    client = gateway._gateway_client  # noqa: SLF001 - a gateway of pinned threads has no public one
    of_numpy = (NumpyArrayConverter, NumpyScalarConverter)
    client.converters = [one for one in client.converters if not isinstance(one, of_numpy)]
