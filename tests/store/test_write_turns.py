"""Turns: of those who write one SQLite database nobody waits for more than those who came before."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import text

from rerail.server.errors import StoreAwayError
from rerail.server.store import engines
from rerail.server.store.write_turns import WriteTurns, turns_of


def test_who_writes_back_to_back_lets_others_between(tmp_path, monkeypatch):
    """Counted from when a turn is asked for: before that the interpreter may let the other thread run for long."""
    address = f"sqlite:///{tmp_path}/turns.sqlite3"
    appending, deriving = engines.write_engine(address), engines.derive_engine(address)
    with appending.begin() as connection:
        connection.execute(text("CREATE TABLE written (number INTEGER)"))
    some = text(
        "INSERT INTO written WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
        "SELECT i FROM n"
    )
    count = 0
    enough = threading.Event()

    def write_back_to_back() -> None:
        nonlocal count
        while not enough.is_set():
            with deriving.begin() as connection:
                connection.execute(some)
                count += 1

    thread = threading.Thread(target=write_back_to_back)
    waits: list[int] = []
    take = WriteTurns.take

    def counted(turns: WriteTurns, seconds: float) -> bool:
        before = count
        came = take(turns, seconds)
        if threading.current_thread() is not thread:
            waits.append(count - before)
        return came

    monkeypatch.setattr(WriteTurns, "take", counted)
    thread.start()
    try:
        while len(waits) < 30:
            with appending.begin() as connection:
                connection.execute(text("INSERT INTO written VALUES (0)"))
    finally:
        enough.set()
        thread.join()
        appending.dispose()
        deriving.dispose()
    assert max(waits) <= 2


def test_an_error_gives_the_turn_back(tmp_path):
    address = f"sqlite:///{tmp_path}/turns.sqlite3"
    engine = engines.write_engine(address)
    with pytest.raises(StoreAwayError), engines.answering(), engine.begin() as connection:
        connection.execute(text("SELECT * FROM nothing"))
    turns = turns_of(address)
    assert turns.take(0)
    turns.give_back()
    engine.dispose()


def test_turns_come_in_the_order_of_asking_and_who_gave_up_has_none():
    turns = WriteTurns()
    assert turns.take(0)
    assert not turns.take(0)
    order: list[int] = []

    def ask(number: int) -> None:
        if turns.take(10):
            order.append(number)
            turns.give_back()

    threads = []
    for number in range(4):
        threads.append(threading.Thread(target=ask, args=(number,)))
        threads[-1].start()
        while len(turns._waiting) <= number:
            threading.Event().wait(0.001)
    turns.give_back()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]
    assert turns.take(0)
