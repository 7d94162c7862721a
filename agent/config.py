"""Settings: flags before environment before `.env` before the user's configuration.

A *source* is one of these places. Single values are taken from the first source that has them. The key and the address
are not single values: they come from one source together or not at all, so that a key is never sent to an address that
came from elsewhere:

- The first source that holds a key or an address is the one that is used. A key alone goes to the default address; an
  address alone gets no key, as servers on one's own machine want it.
- There is no flag for a key, so `--base-url` is the one exception: it may *choose* among the sources. The key of the
  first source that names (or, by having none, implies) this very address is used, else none.

A key that stays unused for this reason is told in `Settings.notes`.

A `.env` file is read beside `main.py` in our own checkout, or instead where `--env-file` says, and in the user's
configuration directory; never in the workspace, which may be a stranger's.

Importing this module is cheap: `--help` does it too. So this is a dataclass, and what is needed only now and then is
imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from agent.errors import ConfigError

APP_NAME = "mycodeagent"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_CONTEXT_TOKENS = 128_000  # what most of today's models hold; larger ones are set by MYCODEAGENT_CONTEXT_TOKENS
SECRET_CHARACTERS_MIN = 8  # shorter "keys" (x, none, ollama) are placeholders: removing them would garble every text

KEY = "OPENAI_API_KEY"
ADDRESS = "OPENAI_BASE_URL"
MODEL = "MYCODEAGENT_MODEL"
HOME = "MYCODEAGENT_HOME"
MEMORY_DIR = "MYCODEAGENT_MEMORY_DIR"
CONTEXT_TOKENS = "MYCODEAGENT_CONTEXT_TOKENS"
IMAGES = "MYCODEAGENT_IMAGES"
SDK = "MYCODEAGENT_SDK"


@dataclass(frozen=True)
class Flags:
    """What the command line says of settings; None or empty where it says nothing."""

    model: str | None = None
    base_url: str | None = None
    memory_dir: str | None = None
    env_file: str | None = None


@dataclass(frozen=True)
class Settings:
    """What the program runs with. `notes` are lines for the user: what was set, but is not used, and why."""

    provider_kind: Literal["demo", "openai_chat"]
    model: str  # "demo" with the demo model
    base_url: str  # "" with the demo model
    api_key: str | None = field(repr=False)  # None: no key is sent
    home: Path  # as in `Places`
    memory_dir: Path | None
    context_tokens: int
    sees_images: bool  # the model
    uses_sdk: bool  # requests go out through the openai package
    notes: tuple[str, ...]
    secrets: tuple[str, ...] = field(repr=False)  # exact values that no text may hold, used or not


@dataclass(frozen=True)
class Places:
    """Where sessions are kept: all that `sessions` and `recover` need, whatever is missing for a model."""

    home: Path  # absolute: where the sessions of all projects live
    memory_dir: Path | None  # absolute: one stated memory folder, instead of one for each project below `home`


@dataclass(frozen=True)
class _Source:
    """One place that holds settings; `name` is how messages call it."""

    name: str
    values: Mapping[str, str] = field(repr=False)

    def get(self, name: str) -> str | None:
        """The value without white space around it; None when it is absent or empty."""
        return self.values.get(name, "").strip() or None


@dataclass(frozen=True)
class _Connection:
    base_url: str
    api_key: str | None = field(repr=False)


def load_settings(
    flags: Flags,
    environment: Mapping[str, str],
    *,
    source_root: Path | None = None,
    config_dir: Path | None = None,
    state_dir: Path | None = None,
) -> Settings:
    """Read all sources and make the settings of them.

    `source_root` is the directory of `main.py` when we run from our own checkout. `config_dir` and `state_dir` are
    the user's directories for our files; None asks the platform.

    Raises:
        ConfigError: a setting is wrong or missing, or a file cannot be read; the message says which.
    """
    sources = list(_sources(flags, environment, source_root, config_dir))
    places = _places(sources, environment, state_dir)
    notes: list[str] = []
    connection = _connection(sources, notes)
    model = _model(sources, connection, notes)
    keys = {key for source in sources if (key := source.get(KEY)) and len(key) >= SECRET_CHARACTERS_MIN}
    return Settings(
        provider_kind="openai_chat" if connection else "demo",
        model=model,
        base_url=connection.base_url if connection else "",
        api_key=connection.api_key if connection else None,
        home=places.home,
        memory_dir=places.memory_dir,
        context_tokens=_context_tokens(sources),
        sees_images=_sees_images(sources, model),
        uses_sdk=_yes_or_no(sources, SDK) or False,
        notes=tuple(notes),
        secrets=tuple(sorted(keys)),
    )


def load_places(
    flags: Flags,
    environment: Mapping[str, str],
    *,
    source_root: Path | None = None,
    config_dir: Path | None = None,
    state_dir: Path | None = None,
) -> Places:
    """Read all sources, but only for where sessions are kept. Parameters and errors are those of `load_settings`."""
    return _places(list(_sources(flags, environment, source_root, config_dir)), environment, state_dir)


# -- sources


def _sources(
    flags: Flags, environment: Mapping[str, str], source_root: Path | None, config_dir: Path | None
) -> Iterable[_Source]:
    stated = {ADDRESS: flags.base_url, MODEL: flags.model, MEMORY_DIR: flags.memory_dir}
    yield _Source("the command line", {name: value for name, value in stated.items() if value is not None})
    yield _Source("the environment", environment)
    if flags.env_file:
        path = _path(flags.env_file, environment)
        if path is None or not path.is_file():
            raise ConfigError(f"--env-file: there is no file {flags.env_file}.")
        yield _env_file(path)
    elif source_root is not None and (source_root / ".env").is_file():
        yield _env_file(source_root / ".env")
    if config_dir is None:
        from platformdirs import user_config_path

        config_dir = user_config_path(APP_NAME)
    # A relative one means that the home directory is unknown: below the working directory lies a stranger's file.
    if config_dir.is_absolute() and (config_dir / ".env").is_file():
        yield _env_file(config_dir / ".env")


def _env_file(path: Path) -> _Source:
    from dotenv import dotenv_values

    try:
        values = dotenv_values(path, interpolate=False, encoding="utf-8-sig")  # a $ in a key is a $
    except (OSError, UnicodeDecodeError) as error:
        why = "is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"cannot be read: {error.strerror}"
        raise ConfigError(f"The settings file {path} {why}.") from error
    return _Source(str(path), {name: value for name, value in values.items() if value is not None})


def _first(sources: Sequence[_Source], name: str) -> str | None:
    return next((value for source in sources if (value := source.get(name))), None)


# -- key, address, model


def _connection(sources: Sequence[_Source], notes: list[str]) -> _Connection | None:
    """Choose key and address by the rule at the head of this module; None when no source has either."""
    chosen = next((source for source in sources if source.get(KEY) or source.get(ADDRESS)), None)
    if chosen is None:
        return None
    address = _checked_address(chosen)
    keys_from = [chosen]
    if chosen is sources[0]:  # the command line cannot state a key: it chooses one by its address
        keys_from = [source for source in sources[1:] if source.get(KEY) and _same_address(source, address)]
    connection = _Connection(address, _checked_key(keys_from[0]) if keys_from else None)
    notes.extend(_unused(sources, chosen, connection))
    return connection


def _unused(sources: Sequence[_Source], chosen: _Source, connection: _Connection) -> Iterable[str]:
    """Say what a user may have expected to be used together with what was chosen."""
    others = [source for source in sources if source is not chosen]
    if connection.api_key is None:
        for source in others:
            if source.get(KEY):
                yield (
                    f"{KEY} of {source.name} is not sent to {connection.base_url}, which comes from {chosen.name}: "
                    "state both in one place to use them together."
                )
    elif chosen.get(ADDRESS) is None:
        for source in others:
            if source.get(ADDRESS) and not _same_address(source, connection.base_url):
                yield (
                    f"{ADDRESS} of {source.name} is not used, because {KEY} comes from {chosen.name}: "
                    "state both in one place to use them together."
                )


def _same_address(source: _Source, address: str) -> bool:
    def normal(url: str) -> tuple[str, str, str]:
        parts = urlsplit(url)
        return parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/")

    try:
        return normal(source.get(ADDRESS) or DEFAULT_BASE_URL) == normal(address)
    except ValueError:  # the source's own address is none: it is checked when it is used
        return False


def _checked_address(source: _Source) -> str:
    address = source.get(ADDRESS) or DEFAULT_BASE_URL
    name = "--base-url" if source.name == "the command line" else f"{ADDRESS} of {source.name}"
    try:
        parts = urlsplit(address)
        usable = parts.scheme.lower() in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, brackets that do not fit
        usable = False
    else:
        if usable and "@" in parts.netloc:
            raise ConfigError(f"{name} holds a user name or password; put the key into {KEY} instead.")
    if not usable or not address.isprintable() or " " in address:
        raise ConfigError(f"{name} is no web address: it should look like {DEFAULT_BASE_URL}.")
    return address.rstrip("/")


def _checked_key(source: _Source) -> str | None:
    key = source.get(KEY)
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(f"{KEY} of {source.name} holds characters that no key has: copy it again.")
    return key


def _model(sources: Sequence[_Source], connection: _Connection | None, notes: list[str]) -> str:
    model = _first(sources, MODEL)
    if connection is None:
        if sources[0].get(MODEL):
            raise ConfigError(f"--model {model} needs a service: set {KEY}, or {ADDRESS} for a server of your own.")
        if model is not None:
            notes.append(f"{MODEL} is set but neither {KEY} nor {ADDRESS} is, so the demo model answers.")
        return "demo"
    if model is None:
        raise ConfigError(f"No model is named for {connection.base_url}: set {MODEL} or use --model.")
    return model


# -- the rest


def _context_tokens(sources: Sequence[_Source]) -> int:
    value = _first(sources, CONTEXT_TOKENS)
    if value is None:
        return DEFAULT_CONTEXT_TOKENS
    if not value.isascii() or not value.isdecimal() or int(value) == 0:
        raise ConfigError(
            f"{CONTEXT_TOKENS} is {value!r}: it should be a number of tokens like {DEFAULT_CONTEXT_TOKENS}."
        )
    return int(value)


def _sees_images(sources: Sequence[_Source], model: str) -> bool:
    said = _yes_or_no(sources, IMAGES)
    if said is None:
        from agent.provider.sight import sees_images

        return sees_images(model)
    return said


def _yes_or_no(sources: Sequence[_Source], name: str) -> bool | None:
    value = _first(sources, name)
    if value is None:
        return None
    if value.lower() not in ("yes", "no"):
        raise ConfigError(f"{name} is {value!r}: it should be yes or no.")
    return value.lower() == "yes"


def _places(sources: Sequence[_Source], environment: Mapping[str, str], state_dir: Path | None) -> Places:
    memory_dir = _path(_first(sources, MEMORY_DIR), environment)
    home = _path(_first(sources, HOME), environment)
    if home is None:
        if state_dir is None:
            from platformdirs import user_state_path

            state_dir = user_state_path(APP_NAME)
        home = state_dir
    if not home.is_absolute():  # platformdirs leaves the ~ in place when nobody knows the home directory
        raise ConfigError(f"Your home directory is not known, so there is no place for sessions: set {HOME}.")
    return Places(home, memory_dir)


def _path(value: str | None, environment: Mapping[str, str]) -> Path | None:
    """An absolute path, relative ones from the working directory, `~` from HOME."""
    if not value:
        return None
    if value == "~" or value.startswith("~/"):
        user_home = environment.get("HOME", "")
        if not user_home:
            raise ConfigError(f"{value} needs a home directory, and HOME is not set.")
        value = user_home + value[1:]
    return Path(value).absolute()
