"""Which version this is."""

from __future__ import annotations


def version() -> str:
    """The version of the installed package, or of the checkout's pyproject.toml."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("mycodeagent")
    except PackageNotFoundError:
        return _of_checkout()


def version_text() -> str:
    return f"mycodeagent {version()}"


def _of_checkout() -> str:
    import tomllib
    from pathlib import Path

    path = Path(__file__).resolve().parents[2] / "pyproject.toml"
    try:
        with path.open("rb") as file:
            return str(tomllib.load(file)["project"]["version"])
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return "0.0 (no version found)"
