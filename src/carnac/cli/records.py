"""The JSON form of Carnac's values, where commands look for it."""

from carnac.core.json_form import object_to_json, to_json

__all__ = ["object_to_json", "to_json"]
