"""Druid's expression language, compiled to Spark SQL."""

from __future__ import annotations

from carnac.specs.druid.expressions.compiler import (
    CompiledExpression,
    compile_condition,
    compile_expression,
)

__all__ = ["CompiledExpression", "compile_condition", "compile_expression"]
