"""The JSON form of Carnac's values, where commands look for it."""

from carnac.core.json_form import to_json

__all__ = ["to_json"]
