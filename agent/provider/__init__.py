"""Speaks to models: the only place that imports openai and httpx."""
