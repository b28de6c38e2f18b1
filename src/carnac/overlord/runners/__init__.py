"""Runners of attempts: threads, child processes, `spark-submit`. None of them knows what an attempt does."""

from carnac.overlord.runners.in_process import InProcessRunner
from carnac.overlord.runners.process import ProcessRunner
from carnac.overlord.runners.submit import SparkSubmitRunner

__all__ = ["InProcessRunner", "ProcessRunner", "SparkSubmitRunner"]
