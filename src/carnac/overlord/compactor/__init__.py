"""Automatic compaction: a controller follows the log and has time chunks rewritten.

`controller` notes which chunks a commit changed, and starts runs as `core.compaction.control` decides. A run is a task
of the overlord (`overlord`), or a thread of this process (`local`, for `carnac compact --auto`). `service` keeps the
specs and explains plans, `status` writes down how far the controller is.
"""
