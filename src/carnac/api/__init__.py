"""The HTTP API of an overlord, under Druid's paths. FastAPI is imported where the app is made."""
