"""The statements over tasks, their attempts and who leads.

Written from `carnac.metadata.definitions.tasks` by `make statements`.
"""

from __future__ import annotations

from carnac.metadata.session import SqlText, Statement

CLOCKS_AGREE_MS = 5000
LAST_NUMBER = Statement(
    sqlite=SqlText('SELECT task_numbers.last_number FROM task_numbers'),
    postgresql=SqlText('SELECT task_numbers.last_number FROM task_numbers'),
)
PUT_NUMBER = Statement(
    sqlite=SqlText('INSERT INTO task_numbers (id, last_number) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET last_number = excluded.last_number', ('id', 'last_number')),
    postgresql=SqlText('INSERT INTO task_numbers (id, last_number) VALUES (%(id)s::BIGINT, %(last_number)s::BIGINT) ON CONFLICT (id) DO UPDATE SET last_number = excluded.last_number'),
)
FIND = Statement(
    sqlite=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks WHERE tasks.task_id = ?', ('task_id',)),
    postgresql=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks WHERE tasks.task_id = %(task_id)s::VARCHAR'),
)
DEPENDENTS = Statement(
    sqlite=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks JOIN task_waits ON task_waits.task_id = tasks.task_id WHERE task_waits.waits_for = ? ORDER BY tasks.number', ('task_id',)),
    postgresql=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks JOIN task_waits ON task_waits.task_id = tasks.task_id WHERE task_waits.waits_for = %(task_id)s::VARCHAR ORDER BY tasks.number'),
)
SLEEPING = Statement(
    sqlite=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks WHERE tasks.state = ? AND tasks.wakes_at_ms IS NOT NULL AND (tasks.wakes_at_ms <= ? OR tasks.changed_at_ms - ? > ?) ORDER BY tasks.number', ('state_1', 'at_ms', 'changed_at_ms_1', 'at_ms'), {'state_1': 'waiting', 'changed_at_ms_1': 5000}),
    postgresql=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks WHERE tasks.state = %(state_1)s::VARCHAR AND tasks.wakes_at_ms IS NOT NULL AND (tasks.wakes_at_ms <= %(at_ms)s::BIGINT OR tasks.changed_at_ms - %(changed_at_ms_1)s::BIGINT > %(at_ms)s::BIGINT) ORDER BY tasks.number', (), {'state_1': 'waiting', 'changed_at_ms_1': 5000}),
)
READY = Statement(
    sqlite=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks WHERE tasks.state = ? ORDER BY tasks.priority DESC, tasks.number LIMIT ? OFFSET ?', ('state_1', 'limit', 'param_1'), {'state_1': 'pending', 'param_1': 0}),
    postgresql=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks WHERE tasks.state = %(state_1)s::VARCHAR ORDER BY tasks.priority DESC, tasks.number LIMIT %(limit)s', (), {'state_1': 'pending'}),
)
PAYLOAD = Statement(
    sqlite=SqlText('SELECT task_payloads.payload FROM task_payloads WHERE task_payloads.task_id = ?', ('task_id',)),
    postgresql=SqlText('SELECT task_payloads.payload FROM task_payloads WHERE task_payloads.task_id = %(task_id)s::VARCHAR'),
)
REPORT = Statement(
    sqlite=SqlText('SELECT task_reports.report FROM task_reports WHERE task_reports.task_id = ? AND task_reports.number = ?', ('task_id', 'number')),
    postgresql=SqlText('SELECT task_reports.report FROM task_reports WHERE task_reports.task_id = %(task_id)s::VARCHAR AND task_reports.number = %(number)s::BIGINT'),
)
LAST_REPORT = Statement(
    sqlite=SqlText('SELECT task_reports.report FROM task_reports WHERE task_reports.task_id = ? ORDER BY task_reports.number DESC LIMIT 1 OFFSET ?', ('task_id', 'param_1'), {'param_1': 0}),
    postgresql=SqlText('SELECT task_reports.report FROM task_reports WHERE task_reports.task_id = %(task_id)s::VARCHAR ORDER BY task_reports.number DESC LIMIT 1'),
)
FIND_ATTEMPT = Statement(
    sqlite=SqlText('SELECT task_attempts.task_id, task_attempts.number, task_attempts.state, task_attempts.slots, task_attempts.runner, task_attempts.handle, task_attempts.holder, task_attempts.created_at_ms, task_attempts.claimed_at_ms, task_attempts.heartbeat_at_ms, task_attempts.lease_ms, task_attempts.ended_at_ms, task_attempts.is_settled, task_attempts.progress, task_attempts.error FROM task_attempts WHERE task_attempts.task_id = ? AND task_attempts.number = ?', ('task_id', 'number')),
    postgresql=SqlText('SELECT task_attempts.task_id, task_attempts.number, task_attempts.state, task_attempts.slots, task_attempts.runner, task_attempts.handle, task_attempts.holder, task_attempts.created_at_ms, task_attempts.claimed_at_ms, task_attempts.heartbeat_at_ms, task_attempts.lease_ms, task_attempts.ended_at_ms, task_attempts.is_settled, task_attempts.progress, task_attempts.error FROM task_attempts WHERE task_attempts.task_id = %(task_id)s::VARCHAR AND task_attempts.number = %(number)s::BIGINT'),
)
ATTEMPT_STATE = Statement(
    sqlite=SqlText('SELECT task_attempts.state FROM task_attempts WHERE task_attempts.task_id = ? AND task_attempts.number = ?', ('task_id', 'number')),
    postgresql=SqlText('SELECT task_attempts.state FROM task_attempts WHERE task_attempts.task_id = %(task_id)s::VARCHAR AND task_attempts.number = %(number)s::BIGINT'),
)
ATTEMPTS = Statement(
    sqlite=SqlText('SELECT task_attempts.task_id, task_attempts.number, task_attempts.state, task_attempts.slots, task_attempts.runner, task_attempts.handle, task_attempts.holder, task_attempts.created_at_ms, task_attempts.claimed_at_ms, task_attempts.heartbeat_at_ms, task_attempts.lease_ms, task_attempts.ended_at_ms, task_attempts.is_settled, task_attempts.progress, task_attempts.error FROM task_attempts WHERE task_attempts.task_id = ? ORDER BY task_attempts.number', ('task_id',)),
    postgresql=SqlText('SELECT task_attempts.task_id, task_attempts.number, task_attempts.state, task_attempts.slots, task_attempts.runner, task_attempts.handle, task_attempts.holder, task_attempts.created_at_ms, task_attempts.claimed_at_ms, task_attempts.heartbeat_at_ms, task_attempts.lease_ms, task_attempts.ended_at_ms, task_attempts.is_settled, task_attempts.progress, task_attempts.error FROM task_attempts WHERE task_attempts.task_id = %(task_id)s::VARCHAR ORDER BY task_attempts.number'),
)
ALL_TASKS = Statement(
    sqlite=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks ORDER BY tasks.number'),
    postgresql=SqlText('SELECT tasks.task_id, tasks.number, tasks.type, tasks.datasource, tasks.group_id, tasks.digest, tasks.context, tasks.priority, tasks.slots, tasks.dependencies, tasks.waits_for, tasks.retry_limit, tasks.retry_delay_ms, tasks.retry_longest_delay_ms, tasks.failures, tasks.attempts, tasks.state, tasks.wakes_at_ms, tasks.created_at_ms, tasks.changed_at_ms, tasks.started_at_ms, tasks.finished_at_ms, tasks.error FROM tasks ORDER BY tasks.number'),
)
ALL_ATTEMPTS = Statement(
    sqlite=SqlText('SELECT task_attempts.task_id, task_attempts.number, task_attempts.state, task_attempts.slots, task_attempts.runner, task_attempts.handle, task_attempts.holder, task_attempts.created_at_ms, task_attempts.claimed_at_ms, task_attempts.heartbeat_at_ms, task_attempts.lease_ms, task_attempts.ended_at_ms, task_attempts.is_settled, task_attempts.progress, task_attempts.error FROM task_attempts ORDER BY task_attempts.task_id, task_attempts.number'),
    postgresql=SqlText('SELECT task_attempts.task_id, task_attempts.number, task_attempts.state, task_attempts.slots, task_attempts.runner, task_attempts.handle, task_attempts.holder, task_attempts.created_at_ms, task_attempts.claimed_at_ms, task_attempts.heartbeat_at_ms, task_attempts.lease_ms, task_attempts.ended_at_ms, task_attempts.is_settled, task_attempts.progress, task_attempts.error FROM task_attempts ORDER BY task_attempts.task_id, task_attempts.number'),
)
LIVE_ATTEMPTS = Statement(
    sqlite=SqlText('SELECT task_attempts.task_id, task_attempts.number, task_attempts.state, task_attempts.slots, task_attempts.runner, task_attempts.handle, task_attempts.holder, task_attempts.created_at_ms, task_attempts.claimed_at_ms, task_attempts.heartbeat_at_ms, task_attempts.lease_ms, task_attempts.ended_at_ms, task_attempts.is_settled, task_attempts.progress, task_attempts.error FROM task_attempts WHERE task_attempts.is_settled = 0 ORDER BY task_attempts.task_id, task_attempts.number'),
    postgresql=SqlText('SELECT task_attempts.task_id, task_attempts.number, task_attempts.state, task_attempts.slots, task_attempts.runner, task_attempts.handle, task_attempts.holder, task_attempts.created_at_ms, task_attempts.claimed_at_ms, task_attempts.heartbeat_at_ms, task_attempts.lease_ms, task_attempts.ended_at_ms, task_attempts.is_settled, task_attempts.progress, task_attempts.error FROM task_attempts WHERE task_attempts.is_settled = 0 ORDER BY task_attempts.task_id, task_attempts.number'),
)
LEADER = Statement(
    sqlite=SqlText('SELECT leaders.role, leaders.leader_id, leaders.fence, leaders.holder, leaders.url, leaders.since_ms, leaders.heartbeat_at_ms, leaders.lease_ms FROM leaders WHERE leaders.role = ?', ('role',)),
    postgresql=SqlText('SELECT leaders.role, leaders.leader_id, leaders.fence, leaders.holder, leaders.url, leaders.since_ms, leaders.heartbeat_at_ms, leaders.lease_ms FROM leaders WHERE leaders.role = %(role)s::VARCHAR'),
)
PUT_LEADER = Statement(
    sqlite=SqlText('INSERT INTO leaders (role, leader_id, fence, holder, url, since_ms, heartbeat_at_ms, lease_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (role) DO UPDATE SET leader_id = excluded.leader_id, fence = excluded.fence, holder = excluded.holder, url = excluded.url, since_ms = excluded.since_ms, heartbeat_at_ms = excluded.heartbeat_at_ms, lease_ms = excluded.lease_ms', ('role', 'leader_id', 'fence', 'holder', 'url', 'since_ms', 'heartbeat_at_ms', 'lease_ms')),
    postgresql=SqlText('INSERT INTO leaders (role, leader_id, fence, holder, url, since_ms, heartbeat_at_ms, lease_ms) VALUES (%(role)s::VARCHAR, %(leader_id)s::VARCHAR, %(fence)s::BIGINT, %(holder)s::VARCHAR, %(url)s::VARCHAR, %(since_ms)s::BIGINT, %(heartbeat_at_ms)s::BIGINT, %(lease_ms)s::BIGINT) ON CONFLICT (role) DO UPDATE SET leader_id = excluded.leader_id, fence = excluded.fence, holder = excluded.holder, url = excluded.url, since_ms = excluded.since_ms, heartbeat_at_ms = excluded.heartbeat_at_ms, lease_ms = excluded.lease_ms'),
)
PUT_TASK = Statement(
    sqlite=SqlText('INSERT INTO tasks (task_id, number, type, datasource, group_id, digest, context, priority, slots, dependencies, waits_for, retry_limit, retry_delay_ms, retry_longest_delay_ms, failures, attempts, state, wakes_at_ms, created_at_ms, changed_at_ms, started_at_ms, finished_at_ms, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (task_id) DO UPDATE SET number = excluded.number, type = excluded.type, datasource = excluded.datasource, group_id = excluded.group_id, digest = excluded.digest, context = excluded.context, priority = excluded.priority, slots = excluded.slots, dependencies = excluded.dependencies, waits_for = excluded.waits_for, retry_limit = excluded.retry_limit, retry_delay_ms = excluded.retry_delay_ms, retry_longest_delay_ms = excluded.retry_longest_delay_ms, failures = excluded.failures, attempts = excluded.attempts, state = excluded.state, wakes_at_ms = excluded.wakes_at_ms, created_at_ms = excluded.created_at_ms, changed_at_ms = excluded.changed_at_ms, started_at_ms = excluded.started_at_ms, finished_at_ms = excluded.finished_at_ms, error = excluded.error', ('task_id', 'number', 'type', 'datasource', 'group_id', 'digest', 'context', 'priority', 'slots', 'dependencies', 'waits_for', 'retry_limit', 'retry_delay_ms', 'retry_longest_delay_ms', 'failures', 'attempts', 'state', 'wakes_at_ms', 'created_at_ms', 'changed_at_ms', 'started_at_ms', 'finished_at_ms', 'error')),
    postgresql=SqlText('INSERT INTO tasks (task_id, number, type, datasource, group_id, digest, context, priority, slots, dependencies, waits_for, retry_limit, retry_delay_ms, retry_longest_delay_ms, failures, attempts, state, wakes_at_ms, created_at_ms, changed_at_ms, started_at_ms, finished_at_ms, error) VALUES (%(task_id)s::VARCHAR, %(number)s::BIGINT, %(type)s::VARCHAR, %(datasource)s::VARCHAR, %(group_id)s::VARCHAR, %(digest)s::VARCHAR, %(context)s::VARCHAR, %(priority)s::BIGINT, %(slots)s::BIGINT, %(dependencies)s::VARCHAR, %(waits_for)s::VARCHAR, %(retry_limit)s::BIGINT, %(retry_delay_ms)s::BIGINT, %(retry_longest_delay_ms)s::BIGINT, %(failures)s::BIGINT, %(attempts)s::BIGINT, %(state)s::VARCHAR, %(wakes_at_ms)s::BIGINT, %(created_at_ms)s::BIGINT, %(changed_at_ms)s::BIGINT, %(started_at_ms)s::BIGINT, %(finished_at_ms)s::BIGINT, %(error)s::VARCHAR) ON CONFLICT (task_id) DO UPDATE SET number = excluded.number, type = excluded.type, datasource = excluded.datasource, group_id = excluded.group_id, digest = excluded.digest, context = excluded.context, priority = excluded.priority, slots = excluded.slots, dependencies = excluded.dependencies, waits_for = excluded.waits_for, retry_limit = excluded.retry_limit, retry_delay_ms = excluded.retry_delay_ms, retry_longest_delay_ms = excluded.retry_longest_delay_ms, failures = excluded.failures, attempts = excluded.attempts, state = excluded.state, wakes_at_ms = excluded.wakes_at_ms, created_at_ms = excluded.created_at_ms, changed_at_ms = excluded.changed_at_ms, started_at_ms = excluded.started_at_ms, finished_at_ms = excluded.finished_at_ms, error = excluded.error'),
)
PUT_ATTEMPT = Statement(
    sqlite=SqlText('INSERT INTO task_attempts (task_id, number, state, slots, runner, handle, holder, created_at_ms, claimed_at_ms, heartbeat_at_ms, lease_ms, ended_at_ms, is_settled, progress, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (task_id, number) DO UPDATE SET state = excluded.state, slots = excluded.slots, runner = excluded.runner, handle = excluded.handle, holder = excluded.holder, created_at_ms = excluded.created_at_ms, claimed_at_ms = excluded.claimed_at_ms, heartbeat_at_ms = excluded.heartbeat_at_ms, lease_ms = excluded.lease_ms, ended_at_ms = excluded.ended_at_ms, is_settled = excluded.is_settled, progress = excluded.progress, error = excluded.error', ('task_id', 'number', 'state', 'slots', 'runner', 'handle', 'holder', 'created_at_ms', 'claimed_at_ms', 'heartbeat_at_ms', 'lease_ms', 'ended_at_ms', 'is_settled', 'progress', 'error')),
    postgresql=SqlText('INSERT INTO task_attempts (task_id, number, state, slots, runner, handle, holder, created_at_ms, claimed_at_ms, heartbeat_at_ms, lease_ms, ended_at_ms, is_settled, progress, error) VALUES (%(task_id)s::VARCHAR, %(number)s::BIGINT, %(state)s::VARCHAR, %(slots)s::BIGINT, %(runner)s::VARCHAR, %(handle)s::VARCHAR, %(holder)s::VARCHAR, %(created_at_ms)s::BIGINT, %(claimed_at_ms)s::BIGINT, %(heartbeat_at_ms)s::BIGINT, %(lease_ms)s::BIGINT, %(ended_at_ms)s::BIGINT, %(is_settled)s::BIGINT, %(progress)s::VARCHAR, %(error)s::VARCHAR) ON CONFLICT (task_id, number) DO UPDATE SET state = excluded.state, slots = excluded.slots, runner = excluded.runner, handle = excluded.handle, holder = excluded.holder, created_at_ms = excluded.created_at_ms, claimed_at_ms = excluded.claimed_at_ms, heartbeat_at_ms = excluded.heartbeat_at_ms, lease_ms = excluded.lease_ms, ended_at_ms = excluded.ended_at_ms, is_settled = excluded.is_settled, progress = excluded.progress, error = excluded.error'),
)
PUT_REPORT = Statement(
    sqlite=SqlText('INSERT INTO task_reports (task_id, number, report) VALUES (?, ?, ?) ON CONFLICT (task_id, number) DO UPDATE SET report = excluded.report', ('task_id', 'number', 'report')),
    postgresql=SqlText('INSERT INTO task_reports (task_id, number, report) VALUES (%(task_id)s::VARCHAR, %(number)s::BIGINT, %(report)s::VARCHAR) ON CONFLICT (task_id, number) DO UPDATE SET report = excluded.report'),
)
INSERT_PAYLOAD = Statement(
    sqlite=SqlText('INSERT INTO task_payloads (task_id, payload) VALUES (?, ?)', ('task_id', 'payload')),
    postgresql=SqlText('INSERT INTO task_payloads (task_id, payload) VALUES (%(task_id)s::VARCHAR, %(payload)s::VARCHAR)'),
)
INSERT_WAIT = Statement(
    sqlite=SqlText('INSERT INTO task_waits (waits_for, task_id) VALUES (?, ?)', ('waits_for', 'task_id')),
    postgresql=SqlText('INSERT INTO task_waits (waits_for, task_id) VALUES (%(waits_for)s::VARCHAR, %(task_id)s::VARCHAR)'),
)
REMOVE_WAITS = Statement(
    sqlite=SqlText('DELETE FROM task_waits WHERE task_waits.task_id = ?', ('task_id',)),
    postgresql=SqlText('DELETE FROM task_waits WHERE task_waits.task_id = %(task_id)s::VARCHAR'),
)
REMOVALS = [
Statement(
    sqlite=SqlText('DELETE FROM task_waits WHERE task_waits.task_id = ?', ('task_id',)),
    postgresql=SqlText('DELETE FROM task_waits WHERE task_waits.task_id = %(task_id)s::VARCHAR'),
),Statement(
    sqlite=SqlText('DELETE FROM task_reports WHERE task_reports.task_id = ?', ('task_id',)),
    postgresql=SqlText('DELETE FROM task_reports WHERE task_reports.task_id = %(task_id)s::VARCHAR'),
),Statement(
    sqlite=SqlText('DELETE FROM task_attempts WHERE task_attempts.task_id = ?', ('task_id',)),
    postgresql=SqlText('DELETE FROM task_attempts WHERE task_attempts.task_id = %(task_id)s::VARCHAR'),
),Statement(
    sqlite=SqlText('DELETE FROM task_payloads WHERE task_payloads.task_id = ?', ('task_id',)),
    postgresql=SqlText('DELETE FROM task_payloads WHERE task_payloads.task_id = %(task_id)s::VARCHAR'),
),Statement(
    sqlite=SqlText('DELETE FROM tasks WHERE tasks.task_id = ?', ('task_id',)),
    postgresql=SqlText('DELETE FROM tasks WHERE tasks.task_id = %(task_id)s::VARCHAR'),
),
]
