from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.config import DEFAULT_BASE_URL, Flags, Places, Settings, load_places, load_settings
from agent.errors import ConfigError
from agent.provider.choose import make_provider

CHECKOUT = Path(__file__).parents[2]
HERE, THERE = "http://here.test/v1", "http://there.test/v1"
KEY, OTHER_KEY = "sk-first-0123456789", "sk-second-0123456789"

NO_FLAGS = Flags()


@dataclass
class User:
    """A user's places below one folder; `env_file` and `config` write the two settings files."""

    folder: Path

    def env_file(self, text: str) -> None:
        self._write("checkout", text)

    def config(self, text: str) -> None:
        self._write("config", text)

    def _write(self, place: str, text: str) -> None:
        (self.folder / place).mkdir(exist_ok=True)
        (self.folder / place / ".env").write_text(text, "utf-8")

    def load(self, flags: Flags = NO_FLAGS, **environment: str) -> Settings:
        return load_settings(
            flags,
            environment,
            source_root=self.folder / "checkout",
            config_dir=self.folder / "config",
            state_dir=self.folder / "state",
        )


@pytest.fixture
def someone(tmp_path: Path) -> User:
    return User(tmp_path)


def connection(settings: Settings) -> tuple[str, str | None]:
    return settings.base_url, settings.api_key


# -- which source wins


def test_nothing_set_starts_the_demo_model(someone: User) -> None:
    assert someone.load() == Settings(
        provider_kind="demo",
        model="demo",
        base_url="",
        api_key=None,
        home=someone.folder / "state",
        memory_dir=None,
        context_tokens=128_000,
        sees_images=False,
        uses_sdk=False,
        notes=(),
        secrets=(),
    )


def test_an_unedited_copy_of_the_example_starts_the_demo_model(someone: User) -> None:
    someone.env_file((CHECKOUT / ".env.example").read_text())
    assert (someone.load().provider_kind, someone.load().notes) == ("demo", ())


def test_flags_come_before_the_environment_before_the_env_file_before_the_users_configuration(someone: User) -> None:
    environment = {"OPENAI_BASE_URL": HERE}
    someone.config("MYCODEAGENT_MODEL=from-config\n")
    models = [someone.load(NO_FLAGS, **environment).model]
    someone.env_file("MYCODEAGENT_MODEL=from-file\n")
    models.append(someone.load(NO_FLAGS, **environment).model)
    environment["MYCODEAGENT_MODEL"] = "from-environment"
    models.append(someone.load(NO_FLAGS, **environment).model)
    models.append(someone.load(Flags(model="from-flag"), **environment).model)
    assert models == ["from-config", "from-file", "from-environment", "from-flag"]


def test_all_of_it_from_the_environment(someone: User) -> None:
    settings = someone.load(
        OPENAI_API_KEY=f" {KEY}\n",
        OPENAI_BASE_URL=HERE + "/",
        MYCODEAGENT_MODEL="m",
        MYCODEAGENT_HOME="/home-of-sessions",
        MYCODEAGENT_MEMORY_DIR="/memory",
        MYCODEAGENT_CONTEXT_TOKENS="8000",
    )
    assert settings == Settings(
        provider_kind="openai_chat",
        model="m",
        base_url=HERE,
        api_key=KEY,
        home=Path("/home-of-sessions"),
        memory_dir=Path("/memory"),
        context_tokens=8000,
        sees_images=False,
        uses_sdk=False,
        notes=(),
        secrets=(KEY,),
    )


def test_empty_values_count_as_unset(someone: User) -> None:
    someone.env_file(f"OPENAI_API_KEY={KEY}\nMYCODEAGENT_MODEL=m\n")
    settings = someone.load(Flags(base_url="", model=""), OPENAI_API_KEY="", OPENAI_BASE_URL=" ", MYCODEAGENT_MODEL="")
    assert (connection(settings), settings.model) == ((DEFAULT_BASE_URL, KEY), "m")


def test_values_of_a_settings_file_are_taken_as_they_are(someone: User) -> None:
    someone.env_file(
        f"\ufeff# a comment\nexport OPENAI_API_KEY='sk-$HOME-{{x}}'\nOPENAI_BASE_URL={HERE}\nMYCODEAGENT_MODEL=模型\n"
    )
    settings = someone.load(HOME="/somewhere")
    assert (connection(settings), settings.model) == ((HERE, "sk-$HOME-{x}"), "模型")


def test_a_stated_settings_file_takes_the_place_of_the_one_in_the_checkout(someone: User, tmp_path: Path) -> None:
    someone.env_file(f"OPENAI_BASE_URL={HERE}\n")
    someone.config("MYCODEAGENT_MODEL=from-config\n")
    (tmp_path / "stated").write_text(f"OPENAI_BASE_URL={THERE}\n")
    settings = someone.load(Flags(env_file=str(tmp_path / "stated")))
    assert (settings.base_url, settings.model) == (THERE, "from-config")


def test_the_settings_file_of_the_working_directory_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={THERE}\nMYCODEAGENT_MODEL=m\n")
    code = "from agent.config import *; import os; print(load_settings(Flags(), os.environ).provider_kind)"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "demo\n"


def test_without_a_home_directory_the_sentence_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="MYCODEAGENT_HOME"):
        load_settings(Flags(), {}, config_dir=tmp_path, state_dir=Path("~/.local/state/mycodeagent"))


# -- key and address come from one source together or not at all


@dataclass(frozen=True)
class Case:
    """Where key and address stand, and which pair is used. `note` is a word of the one note, if there is one."""

    flag: str = ""
    environment: str = ""
    file: str = ""
    config: str = ""
    used: tuple[str, str | None] = ("", None)
    note: str = ""


CASES = {
    "key and address of the environment": Case(environment=f"{KEY} {HERE}", used=(HERE, KEY)),
    "a key goes to the default address": Case(environment=KEY, used=(DEFAULT_BASE_URL, KEY)),
    "an address gets no key": Case(environment=HERE, used=(HERE, None)),
    "key and address of the file": Case(file=f"{KEY} {HERE}", used=(HERE, KEY)),
    "key and address of the configuration": Case(config=f"{KEY} {HERE}", used=(HERE, KEY)),
    "the address of a lower source is not used with a key": Case(
        environment=KEY, file=HERE, used=(DEFAULT_BASE_URL, KEY), note="OPENAI_BASE_URL of"
    ),
    "the key of a lower source is not sent to an address": Case(
        environment=HERE, file=KEY, used=(HERE, None), note="OPENAI_API_KEY of"
    ),
    "nor when it has an address of its own": Case(
        environment=HERE, file=f"{KEY} {THERE}", used=(HERE, None), note="OPENAI_API_KEY of"
    ),
    "two whole pairs: the higher one": Case(environment=f"{KEY} {HERE}", file=f"{OTHER_KEY} {THERE}", used=(HERE, KEY)),
    "a flag's address gets no key that was meant for the default address": Case(
        flag=HERE, environment=KEY, used=(HERE, None), note="OPENAI_API_KEY of the environment"
    ),
    "nor one that was meant for another": Case(
        flag=HERE, environment=f"{KEY} {THERE}", used=(HERE, None), note="OPENAI_API_KEY of the environment"
    ),
    "a flag's address gets the key that names the same address": Case(
        flag=HERE, environment=f"{KEY} HTTP://Here.test/v1/", used=(HERE, KEY)
    ),
    "a flag with the default address gets the key that implies it": Case(
        flag=DEFAULT_BASE_URL, environment=KEY, used=(DEFAULT_BASE_URL, KEY)
    ),
    "a flag chooses the source that names its address": Case(
        flag=THERE, environment=f"{KEY} {HERE}", file=f"{OTHER_KEY} {THERE}", used=(THERE, OTHER_KEY)
    ),
    "another path is another address": Case(
        flag="http://here.test/v2", environment=f"{KEY} {HERE}", used=("http://here.test/v2", None), note="not sent"
    ),
    "another port is another address": Case(
        flag="http://here.test:81", environment=f"{KEY} {HERE}", used=("http://here.test:81", None), note="not sent"
    ),
    "an address that only begins like it is another": Case(
        flag="http://here.test.evil", environment=f"{KEY} {HERE}", used=("http://here.test.evil", None), note="not sent"
    ),
    "a broken address of a lower source hurts nobody": Case(
        flag=HERE, environment=f"{KEY} http://[", used=(HERE, None), note="not sent"
    ),
}  # fmt: skip


def values(words: str) -> dict[str, str]:
    """`KEY ADDRESS` in any part, as settings."""
    return {("OPENAI_API_KEY" if word.startswith("sk-") else "OPENAI_BASE_URL"): word for word in words.split()}


def lines(words: str) -> str:
    return "".join(f"{name}={value}\n" for name, value in values(words).items())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_key_is_never_sent_to_an_address_from_elsewhere(someone: User, case: Case) -> None:
    someone.env_file(lines(case.file))
    someone.config(lines(case.config))
    settings = someone.load(Flags(base_url=case.flag), MYCODEAGENT_MODEL="m", **values(case.environment))
    assert connection(settings) == case.used
    assert len(settings.notes) == bool(case.note)
    assert case.note in "".join(settings.notes)
    assert KEY not in "".join(settings.notes)


def test_every_key_is_a_secret_used_or_not_but_placeholders_are_none(someone: User) -> None:
    someone.env_file(f"OPENAI_API_KEY={OTHER_KEY}\n")
    someone.config("OPENAI_API_KEY=ollama\n")
    assert someone.load(OPENAI_API_KEY=KEY, MYCODEAGENT_MODEL="m").secrets == (KEY, OTHER_KEY)


def test_keys_do_not_show_in_a_representation(someone: User) -> None:
    assert KEY not in repr(someone.load(OPENAI_API_KEY=KEY, MYCODEAGENT_MODEL="m"))


# -- models


def test_a_service_needs_the_name_of_a_model(someone: User) -> None:
    for environment in ({"OPENAI_API_KEY": KEY}, {"OPENAI_BASE_URL": HERE}):
        with pytest.raises(ConfigError, match="MYCODEAGENT_MODEL"):
            someone.load(NO_FLAGS, **environment)


def test_a_model_flag_needs_a_service(someone: User) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        someone.load(Flags(model="gpt-x"))


def test_a_model_of_the_environment_without_a_service_is_noted(someone: User) -> None:
    settings = someone.load(MYCODEAGENT_MODEL="gpt-x")
    assert (settings.provider_kind, settings.model, len(settings.notes)) == ("demo", "demo", 1)


# -- wrong values


@pytest.mark.parametrize(
    "address",
    ["here.test/v1", "ftp://here.test", "http://", "file:///etc/passwd", "http://[", "http://h:port/v1", "http://a b"],
)  # fmt: skip
def test_a_wrong_address_is_told_with_its_source(someone: User, address: str) -> None:
    with pytest.raises(ConfigError, match="--base-url is no web address"):
        someone.load(Flags(base_url=address, model="m"))
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL of the environment is no web address"):
        someone.load(OPENAI_BASE_URL=address, MYCODEAGENT_MODEL="m")


def test_an_address_with_a_password_is_refused_and_not_repeated(someone: User) -> None:
    with pytest.raises(ConfigError) as caught:
        someone.load(OPENAI_BASE_URL="https://me:hunter22@here.test/v1", MYCODEAGENT_MODEL="m")
    assert "hunter22" not in caught.value.message


@pytest.mark.parametrize("key", ["sk-é-0123456789", "sk-one two", "sk-a\nb"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_repeated(someone: User, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        someone.load(OPENAI_API_KEY=key, MYCODEAGENT_MODEL="m")
    assert key not in caught.value.message
    assert "OPENAI_API_KEY" in caught.value.message


@pytest.mark.parametrize("value", ["many", "-1", "0", "1e6", "12.5"])
def test_a_wrong_number_of_tokens_is_told(someone: User, value: str) -> None:
    with pytest.raises(ConfigError, match="MYCODEAGENT_CONTEXT_TOKENS"):
        someone.load(MYCODEAGENT_CONTEXT_TOKENS=value)


def test_a_missing_settings_file_is_told(someone: User, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--env-file"):
        someone.load(Flags(env_file=str(tmp_path / "missing")))
    with pytest.raises(ConfigError, match="--env-file"):
        someone.load(Flags(env_file=str(tmp_path)))


def test_a_settings_file_that_is_no_text_is_told(someone: User, tmp_path: Path) -> None:
    (tmp_path / "stated").write_bytes(b"OPENAI_API_KEY=\xff\xfe\n")
    with pytest.raises(ConfigError, match="is no UTF-8 text"):
        someone.load(Flags(env_file=str(tmp_path / "stated")))


def test_configuration_errors_end_with_2() -> None:
    assert ConfigError("x").exit_code == 2


# -- places


def test_places_are_known_whatever_is_missing_for_a_model(someone: User) -> None:
    places = load_places(
        Flags(memory_dir="~/memory"),
        {"OPENAI_API_KEY": KEY, "HOME": "/home/me", "MYCODEAGENT_MEMORY_DIR": "/other"},
        config_dir=someone.folder,
        state_dir=someone.folder / "state",
    )
    assert places == Places(home=someone.folder / "state", memory_dir=Path("/home/me/memory"))


def test_a_relative_place_is_below_the_working_directory(someone: User) -> None:
    settings = someone.load(Flags(memory_dir="./memory"), MYCODEAGENT_HOME="state")
    assert (settings.memory_dir, settings.home) == (Path.cwd() / "memory", Path.cwd() / "state")


# -- providers


def test_the_provider_is_the_one_that_the_settings_name(someone: User) -> None:
    demo = make_provider(someone.load())
    real = make_provider(someone.load(OPENAI_BASE_URL=HERE, MYCODEAGENT_MODEL="m"))
    assert [(provider.kind, provider.name) for provider in (demo, real)] == [
        ("demo", "demo model: follows simple commands, no AI"),
        ("openai_chat", "m @ here.test"),
    ]


@pytest.mark.parametrize(
    ("model", "said", "sees"),
    [("gpt-5", "", True), ("deepseek-chat", "", False), ("gpt-5", "no", False), ("deepseek-chat", " Yes ", True)],
)
def test_whether_the_model_sees_images_is_told_by_its_name_or_by_the_setting(
    someone: User, model: str, said: str, sees: bool
) -> None:
    found = someone.load(OPENAI_BASE_URL=HERE, MYCODEAGENT_MODEL=model, MYCODEAGENT_IMAGES=said)
    assert found.sees_images is sees
    with pytest.raises(ConfigError, match="MYCODEAGENT_IMAGES is 'maybe': it should be yes or no"):
        someone.load(MYCODEAGENT_IMAGES="maybe")
