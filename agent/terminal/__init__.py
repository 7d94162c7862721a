"""The terminal program: the only place that imports typer, rich and prompt_toolkit."""
