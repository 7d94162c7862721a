"""Remembers: events on disk, resume, session memory. Knows neither `agent` nor `tools`."""
