"""A datasource at a revision as an Iceberg table: schema, manifests and metadata, each a pure function of the revision.

The format is version 2 of Iceberg's table specification (Source: iceberg.apache.org/spec). Numbers of fields, reserved
ids and names are its own.
"""
