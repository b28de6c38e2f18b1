"""The data pipeline: everything that reads or writes rows in bulk, as Spark jobs.

This is the only package that may import pyspark, and its modules do so where Spark is first
needed: importing the package itself is cheap.
"""
