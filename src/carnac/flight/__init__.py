"""Arrow Flight: historicals as servers, and those servers as brokers and coordinators reach them."""

from carnac.flight.client import FlightSegmentServer
from carnac.flight.server import FlightServer

__all__ = ["FlightSegmentServer", "FlightServer"]
