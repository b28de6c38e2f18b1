"""Messages of Flight SQL and Flight, as far as they are read or written here, by `protobuf`.

Source: `FlightSql.proto` and `Flight.proto` of Arrow. Fields that nothing here looks at are left out: protobuf passes
over what it does not know. Each field has presence, so that a pattern that was not sent is not an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from carnac.core.texts import short
from carnac.errors import Invalid

COMMAND_MAX_BYTES = 8 << 20
"""As long as a body over HTTP."""
_PACKAGE = "arrow.flight.protocol.sql"
_URL = f"type.googleapis.com/{_PACKAGE}."
_KEYS = "catalog:1:string db_schema:2:string table:3:string"
_HANDLE = "prepared_statement_handle:1:bytes"
_MESSAGES: Mapping[str, str] = {
    "ActionBeginSavepointRequest": "",
    "ActionBeginTransactionRequest": "",
    "ActionCancelQueryRequest": "info:1:bytes",
    "ActionCancelQueryResult": "result:1:int32",
    "ActionClosePreparedStatementRequest": _HANDLE,
    "ActionCreatePreparedStatementRequest": "query:1:string transaction_id:2:bytes",
    "ActionCreatePreparedStatementResult": f"{_HANDLE} dataset_schema:2:bytes parameter_schema:3:bytes",
    "ActionCreatePreparedSubstraitPlanRequest": "",
    "ActionEndSavepointRequest": "",
    "ActionEndTransactionRequest": "",
    "CancelFlightInfoRequest": "info:1:bytes",
    "CancelFlightInfoResult": "status:1:int32",
    "CommandGetCatalogs": "",
    "CommandGetCrossReference": "",
    "CommandGetDbSchemas": "catalog:1:string db_schema_filter_pattern:2:string",
    "CommandGetExportedKeys": _KEYS,
    "CommandGetImportedKeys": _KEYS,
    "CommandGetPrimaryKeys": _KEYS,
    "CommandGetSqlInfo": "info:1:uint32*",
    "CommandGetTables": "catalog:1:string db_schema_filter_pattern:2:string table_name_filter_pattern:3:string "
    "table_types:4:string* include_schema:5:bool",
    "CommandGetTableTypes": "",
    "CommandGetXdbcTypeInfo": "data_type:1:int32",
    "CommandPreparedStatementQuery": _HANDLE,
    "CommandPreparedStatementUpdate": _HANDLE,
    "CommandStatementIngest": "",
    "CommandStatementQuery": "query:1:string transaction_id:2:bytes",
    "CommandStatementSubstraitPlan": "",
    "CommandStatementUpdate": "query:1:string",
    "SessionOption": "key:1:string value:2:bytes",
    "SessionOptions": "options:1:bytes*",
    "TicketStatementQuery": "statement_handle:1:bytes",
}


def require_protobuf() -> None:
    """Check that messages can be read.

    Raises:
        Invalid: The package is not there.
    """
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        raise Invalid(
            "Flight SQL needs protobuf, which is not installed: pip install 'carnac[flightsql]', or leave out the "
            "setting flight_sql_port",
            setting="flight_sql_port",
        ) from None


def read(name: str, data: bytes) -> Any:
    """Return the message of a name, as it comes by itself.

    Raises:
        Invalid: It does not read.
    """
    from google.protobuf.message import DecodeError

    if len(data) > COMMAND_MAX_BYTES:
        raise Invalid(f"a command of Flight SQL is longer than {COMMAND_MAX_BYTES} bytes")
    message = _classes()[name]()
    try:
        message.ParseFromString(data)
        for field, value in message.ListFields():
            if field.type == field.TYPE_STRING and isinstance(value, str):
                value.encode()  # bytes that are not UTF-8 are no text
    except (DecodeError, UnicodeError):
        raise Invalid(f"it does not read as {name} of Flight SQL") from None
    return message


def unpack(data: bytes) -> tuple[str, Any]:
    """Return the name of a message and the message, as it comes in an `Any`.

    Raises:
        Invalid: It does not read, or is none of Flight SQL's.
    """
    from google.protobuf.any_pb2 import Any as Envelope
    from google.protobuf.message import DecodeError

    envelope = Envelope()
    try:
        envelope.ParseFromString(data)
    except (DecodeError, UnicodeError):
        raise Invalid("it is no command of Flight SQL: ask by ADBC or JDBC") from None
    name = envelope.type_url.removeprefix(_URL)
    if name not in _MESSAGES or not envelope.type_url.startswith(_URL):
        raise Invalid(f"there is no command {short(envelope.type_url)} of Flight SQL here")
    return name, read(name, envelope.value)


def write(name: str, **fields: object) -> bytes:
    """Return the bytes of a message by itself."""
    data: bytes = _classes()[name](**fields).SerializeToString()
    return data


def pack(name: str, **fields: object) -> bytes:
    """Return the bytes of a message in an `Any`."""
    from google.protobuf.any_pb2 import Any as Envelope

    data: bytes = Envelope(type_url=_URL + name, value=write(name, **fields)).SerializeToString()
    return data


@cache
def _classes() -> Mapping[str, Any]:
    """Return the classes of the messages, in a pool of their own: another library may have them, too."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="carnac/flight_sql.proto", package=_PACKAGE, syntax="proto2"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            field_name, number, kind = field.split(":")
            message.field.add(
                name=field_name,
                number=int(number),
                label=3 if kind.endswith("*") else 1,
                type=getattr(
                    descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind.rstrip('*').upper()}"
                ),
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(one) for name, one in found.items()}
