"""Druid's dialect of specs: its blocks, filters, expressions and patterns of time, turned into the native form."""
