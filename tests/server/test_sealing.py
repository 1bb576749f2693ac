"""Secrets of channels: sealed in the database where there is a key, and never sent without one that opens them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from rerail.server.alerts import AlertDesk
from rerail.server.api.alerts import channel_figures
from rerail.server.cli import main
from rerail.server.errors import RefusedRequestError, SettingsError
from rerail.server.notify.dispatch import LOCKED, Dispatch
from rerail.server.preparing import prepare_database
from rerail.server.queries import Queries
from rerail.server.sealing import new_key, sealing_of
from rerail.server.settings import Settings
from rerail.server.store import Store, open_store

SECRET, ADDRESS = "a-signing-key-that-is-long", "https://hooks.example/T000/B000/token"
SAID = {"name": "night", "kind": "webhook", "address": ADDRESS, "secret": SECRET}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "rerail.sqlite3"
    prepare_database(f"sqlite:///{file}")
    return file


def opened(path: Path, *keys: str) -> Store:
    """The store as a server with these keys has it."""
    sealing = sealing_of(Settings(f"sqlite:///{path}", secret_key=",".join(keys) or None))
    return open_store(f"sqlite:///{path}", sealing)


def kept(path: Path) -> tuple[str, str]:
    """What lies in the table."""
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT address, secret FROM alert_channel").fetchone()


def test_a_secret_is_sealed_in_the_database_and_comes_out_only_for_who_delivers(path: Path):
    store = opened(path, new_key())
    row = AlertDesk(store).put_channel(0, SAID)
    everything = b"".join(each.read_bytes() for each in path.parent.iterdir())
    assert SECRET.encode() not in everything and b"hooks.example" not in everything
    assert store.alerts.channel_secrets() == {row.channel_id: SECRET}
    assert store.alerts.channels()[0].address == ADDRESS
    shown = channel_figures(row)
    assert SECRET not in str(shown) and "token" not in str(shown)
    assert (shown["secret_end"], shown["is_sealed"], shown["is_locked"]) == ("long", True, False)
    store.close()


def test_a_short_secret_shows_nothing_of_itself(path: Path):
    store = opened(path)
    row = AlertDesk(store).put_channel(0, {**SAID, "secret": "s3cr3t"})
    assert (row.secret_end, row.is_sealed) == (None, False)
    store.close()


def test_what_lay_in_clear_is_sealed_and_a_key_is_changed_without_a_gap(path: Path):
    old, new = new_key(), new_key()
    store = opened(path)
    AlertDesk(store).put_channel(0, SAID)
    store.close()
    assert kept(path) == (ADDRESS, SECRET)
    for keys, everything, is_done in (((old,), False, True), ((new, old), True, True), ((new,), False, False)):
        store = opened(path, *keys)
        assert store.alerts.reseal(everything=everything).sealed == is_done
        assert store.alerts.channels()[0].address == ADDRESS
        assert list(store.alerts.channel_secrets().values()) == [SECRET]
        store.close()
    store = opened(path, old)
    assert store.alerts.channels()[0].is_locked, "the old key opens nothing any more"
    store.close()


@pytest.mark.parametrize("keys", [(), (new_key(),)])
def test_without_its_key_nothing_is_sent_and_nothing_is_lost(path: Path, keys: tuple[str, ...]):
    store = opened(path, new_key())
    channel = AlertDesk(store).put_channel(0, SAID).channel_id
    store.close()
    store = opened(path, *keys)
    desk = AlertDesk(store)
    desk.test(channel)
    dispatch = Dispatch(store, Queries(store))
    assert dispatch.deliver_due() == 1
    dispatch.wait(10)
    waiting = store.alerts.messages("waiting", 10)
    assert [each.error for each in waiting] == [LOCKED], "it is tried again"
    for field, said in (("address", {"is_on": True}), ("secret", {"address": ADDRESS})):
        with pytest.raises(RefusedRequestError, match=f"{field}.*give it again"):
            desk.put_channel(channel, said)
    assert not desk.put_channel(channel, {"address": ADDRESS, "secret": SECRET}).is_locked
    assert store.alerts.channel_secrets() == {channel: SECRET}
    store.close()


def test_the_command_makes_a_key_and_seals_with_it(path: Path, tmp_path: Path, monkeypatch, capsys):
    store = opened(path)
    AlertDesk(store).put_channel(0, SAID)
    store.close()
    where = ["--database-url", f"sqlite:///{path}"]
    assert main(["secrets", *where]) == 1 and "night: in clear" in capsys.readouterr().out
    assert main(["secrets", "rotate", *where]) == 1
    assert main(["secrets", "new-key"]) == 0
    key = tmp_path / "secret.key"
    key.write_text("# the key\n" + capsys.readouterr().out)
    monkeypatch.setenv("RERAIL_SECRET_KEY_FILE", str(key))
    assert main(["secrets", "rotate", *where]) == 0
    capsys.readouterr()
    assert main(["secrets", *where]) == 0 and capsys.readouterr().out == "night: sealed\n"
    main(["doctor", *where])
    assert "secrets: sealed, of 1 channels" in capsys.readouterr().out
    monkeypatch.setenv("RERAIL_SECRET_KEY_FILE", "")
    assert main(["doctor", *where]) == 1
    assert "sealed with a key that is not set: night" in capsys.readouterr().out


def test_a_key_that_is_none_is_refused_without_being_shown(tmp_path: Path):
    with pytest.raises(SettingsError, match="key 1 of") as refused:
        sealing_of(Settings("sqlite://", secret_key="hunter2"))
    assert "hunter2" not in str(refused.value)
    empty = tmp_path / "empty"
    empty.write_text("# nothing yet\n")
    for file, reason in ((empty, "holds no key"), (tmp_path / "missing", "No such file")):
        with pytest.raises(SettingsError, match=reason):
            sealing_of(Settings("sqlite://", secret_key_file=str(file)))
    assert "hunter2" not in repr(Settings("sqlite://", secret_key="hunter2"))
