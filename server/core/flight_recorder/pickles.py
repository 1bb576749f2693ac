"""Pickle without execution: the few opcodes that a flight recorder writes, by hand.

Rules
- A pickle is a program. Only opcodes that build plain values are known here: numbers, text, lists, tuples, mappings.
  Whatever names, imports, calls or rebuilds an object is refused with its name and its offset, before anything after
  it is read. Nothing of Python's own unpickler is used.
- Bytes, opcodes, lengths of texts, sizes of containers and how deep they lie in one another have limits
  (`refusal.py`). A value may be used several times (that is what the memo is for); whoever walks over it counts each
  time. One that holds itself is endlessly deep.
- All texts that a pickle holds are in its value: no key is set twice.
"""

from __future__ import annotations

import re
import struct

from rerail.server.core.flight_recorder.nesting import is_deeper
from rerail.server.core.flight_recorder.refusal import (
    LONGEST_NUMBER_BYTES,
    LONGEST_TEXT,
    MOST_BYTES,
    MOST_CONTAINERS,
    MOST_DEPTH,
    MOST_ITEMS,
    MOST_OPCODES,
    MOST_TEXTS,
    DumpRefusedError,
)

REFUSED_NAMES = {
    "c": "GLOBAL", "i": "INST", "o": "OBJ", "R": "REDUCE", "b": "BUILD", "P": "PERSID", "Q": "BINPERSID",
    "p": "PUT", "g": "GET", "F": "FLOAT", "I": "INT", "L": "LONG", "S": "STRING", "V": "UNICODE", "d": "DICT",
    "l": "LIST", "0": "POP", "1": "POP_MARK", "2": "DUP", "T": "BINSTRING", "U": "SHORT_BINSTRING",
    "B": "BINBYTES", "C": "SHORT_BINBYTES", "\x81": "NEWOBJ", "\x82": "EXT1", "\x83": "EXT2", "\x84": "EXT4",
    "\x8b": "LONG4", "\x8d": "BINUNICODE8", "\x8e": "BINBYTES8", "\x8f": "EMPTY_SET", "\x90": "ADDITEMS",
    "\x91": "FROZENSET", "\x92": "NEWOBJ_EX", "\x93": "STACK_GLOBAL", "\x96": "BYTEARRAY8", "\x97": "NEXT_BUFFER",
    "\x98": "READONLY_BUFFER",
}  # fmt: skip
"""Names of opcodes that no recorder writes, for the sentence that refuses them."""

PROTOCOL = 2
"""What PyTorch's recorder writes."""
_OLD = re.compile(rb"\((?:[dl]p\d+\n|[dl]\.)|[}\]]q.[(.\x58\x55]|c[\w.]+\n[\w.]+\n[(\])}pq]", re.DOTALL)
_LONG, _INT, _SHORT, _FLOAT = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H"), struct.Struct(">d")


class _Mark:
    """Where a group of values on the stack begins."""


_MARK = _Mark()


def is_pickle(content: bytes) -> bool:
    """Whether bytes begin as a pickle of protocol 2 to 5 does."""
    return len(content) > 2 and content[0] == 0x80 and 2 <= content[1] <= 5


def is_old_pickle(content: bytes) -> bool:
    """Whether bytes are a pickle of protocol 0 or 1, which have no mark of their own: its first and last opcodes."""
    return content[-1:] == b"." and _OLD.match(content[:400]) is not None


def read_pickle(content: bytes) -> object:
    """The plain value that a pickle builds. Raises DumpRefusedError."""
    return _read(content)[0]


def read_whole_pickle(content: bytes) -> object:
    """The same where nothing stands behind the pickle. Raises DumpRefusedError."""
    value, end = _read(content)
    if end < len(content):
        raise DumpRefusedError(f"{len(content) - end} bytes stand behind the end of the pickle at offset {end}")
    return value


def _read(content: bytes) -> tuple[object, int]:
    """The value, and the offset behind the pickle."""
    if len(content) > MOST_BYTES:
        raise DumpRefusedError(f"the dump has {len(content)} bytes; the most is {MOST_BYTES}")
    if not is_pickle(content):
        raise DumpRefusedError("not a pickle of protocol 2 to 5")
    reader = _Reader(content)
    try:
        value = reader.value()
    except IndexError:
        raise DumpRefusedError(f"the pickle takes a value that is not there (offset {reader.at})") from None
    except struct.error:
        raise DumpRefusedError(f"the pickle is cut off at offset {reader.at} of {len(content)}") from None
    if is_deeper(value, MOST_DEPTH):
        raise DumpRefusedError(f"the pickle nests lists and mappings more than {MOST_DEPTH} deep")
    return value, reader.at + 1


class _Reader:
    """One pass over the opcodes."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._memo: dict[int, object] = {}
        self._stack: list[object] = []
        self._containers = 0
        self._texts = 0
        self.at = 0
        """Offset of the opcode that is being read."""

    def value(self) -> object:
        content, stack, memo = self._content, self._stack, self._memo
        push, end = stack.append, len(content)
        position = 2
        for _ in range(MOST_OPCODES):
            if position >= end:
                raise DumpRefusedError(f"the pickle ends at offset {position} without saying so")
            code = content[position]
            self.at = position
            position += 1
            if code == 0x71:  # BINPUT
                memo[content[position]] = stack[-1]
                position += 1
            elif code == 0x68:  # BINGET
                number = content[position]
                if number not in memo:
                    raise self._never_kept(number)
                push(memo[number])
                position += 1
            elif code == 0x6A:  # LONG_BINGET
                number = _LONG.unpack_from(content, position)[0]
                if number not in memo:
                    raise self._never_kept(number)
                push(memo[number])
                position += 4
            elif code == 0x58:  # BINUNICODE
                self._texts += 1
                length = _LONG.unpack_from(content, position)[0]
                push(self._text(position + 4, length))
                position += 4 + length
            elif code == 0x8C:  # SHORT_BINUNICODE
                self._texts += 1
                length = content[position]
                push(self._text(position + 1, length))
                position += 1 + length
            elif code == 0x4B:  # BININT1
                push(content[position])
                position += 1
            elif code == 0x4D:  # BININT2
                push(_SHORT.unpack_from(content, position)[0])
                position += 2
            elif code == 0x4A:  # BININT
                push(_INT.unpack_from(content, position)[0])
                position += 4
            elif code == 0x8A:  # LONG1
                length = content[position]
                if length > LONGEST_NUMBER_BYTES:
                    raise DumpRefusedError(f"a number of {length} bytes at offset {self.at}")
                self._must_hold(position + 1, length)
                push(int.from_bytes(content[position + 1 : position + 1 + length], "little", signed=True))
                position += 1 + length
            elif code == 0x47:  # BINFLOAT
                push(_FLOAT.unpack_from(content, position)[0])
                position += 8
            elif code == 0x4E:  # NONE
                push(None)
            elif code == 0x88:  # NEWTRUE
                push(True)
            elif code == 0x89:  # NEWFALSE
                push(False)
            elif code == 0x28:  # MARK
                push(_MARK)
            elif code in (0x5D, 0x7D):  # EMPTY_LIST, EMPTY_DICT
                self._containers += 1
                if self._containers > MOST_CONTAINERS:
                    raise DumpRefusedError(f"the pickle makes more than {MOST_CONTAINERS} lists and mappings")
                push([] if code == 0x5D else {})
            elif code == 0x29:  # EMPTY_TUPLE
                push(())
            elif code == 0x65:  # APPENDS
                self._extend(self._since_mark())
            elif code == 0x61:  # APPEND
                self._extend([self._pop()])
            elif code == 0x75:  # SETITEMS
                self._set(self._since_mark())
            elif code == 0x73:  # SETITEM
                value, key = self._pop(), self._pop()
                self._set([key, value])
            elif code in (0x85, 0x86, 0x87):  # TUPLE1 … TUPLE3
                count = code - 0x84
                if len(stack) < count:
                    raise IndexError
                items = tuple(self._pop() for _ in range(count))
                push(items[::-1])
            elif code == 0x74:  # TUPLE
                push(tuple(self._since_mark()))
            elif code == 0x72:  # LONG_BINPUT
                memo[_LONG.unpack_from(content, position)[0]] = stack[-1]
                position += 4
            elif code == 0x94:  # MEMOIZE
                memo[len(memo)] = stack[-1]
            elif code == 0x95:  # FRAME
                self._must_hold(position, 8)
                position += 8
            elif code == 0x2E:  # STOP
                if len(stack) != 1 or stack[0] is _MARK:
                    raise DumpRefusedError(f"the pickle ends at offset {self.at} with {len(stack)} values, not one")
                return stack[0]
            else:
                name = REFUSED_NAMES.get(chr(code), f"0x{code:02x}")
                raise DumpRefusedError(
                    f"the pickle opcode {name} at offset {self.at} is refused: a recorder writes plain values only"
                )
        raise DumpRefusedError(f"the pickle has more than {MOST_OPCODES} opcodes")

    def _pop(self) -> object:
        value = self._stack.pop()
        if value is _MARK:
            raise IndexError
        return value

    def _must_hold(self, start: int, length: int) -> None:
        if start + length > len(self._content):
            raise DumpRefusedError(f"the pickle is cut off at offset {self.at} of {len(self._content)}")

    def _text(self, start: int, length: int) -> str:
        if self._texts > MOST_TEXTS:
            raise DumpRefusedError(f"the pickle holds more than {MOST_TEXTS} texts")
        if length > LONGEST_TEXT:
            raise DumpRefusedError(f"a text of {length} bytes at offset {self.at}; the most is {LONGEST_TEXT}")
        self._must_hold(start, length)
        return self._content[start : start + length].decode("utf-8", "replace")

    def _never_kept(self, number: int) -> DumpRefusedError:
        return DumpRefusedError(f"the pickle asks at offset {self.at} for value {number}, which it never kept")

    def _since_mark(self) -> list[object]:
        stack = self._stack
        for index in range(len(stack) - 1, -1, -1):
            if stack[index] is _MARK:
                items = stack[index + 1 :]
                del stack[index:]
                return items
        raise IndexError

    def _extend(self, items: list[object]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise DumpRefusedError(f"the pickle appends to something that is no list (offset {self.at})")
        if len(target) + len(items) > MOST_ITEMS:
            raise DumpRefusedError(f"a list of more than {MOST_ITEMS} values at offset {self.at}")
        target.extend(items)

    def _set(self, items: list[object]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise DumpRefusedError(f"the pickle sets keys of something that is no mapping (offset {self.at})")
        if len(target) + len(items) // 2 > MOST_ITEMS:
            raise DumpRefusedError(f"a mapping of more than {MOST_ITEMS} keys at offset {self.at}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, int)):
                raise DumpRefusedError(f"a key that is neither text nor number at offset {self.at}")
            if key in target:
                raise DumpRefusedError(f"a key that is set twice at offset {self.at}")
            target[key] = value
