"""What runs attempts: threads, child processes, `spark-submit`. None of them knows what an attempt does."""

from carnac.runners.in_process import InProcessRunner
from carnac.runners.process import ProcessRunner
from carnac.runners.submit import SparkSubmitRunner

__all__ = ["InProcessRunner", "ProcessRunner", "SparkSubmitRunner"]
