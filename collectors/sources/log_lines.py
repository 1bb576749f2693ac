"""Log lines: who said a line, when, and what is left without the prefixes of all who passed it on.

What containers, journals and launchers put around a line is taken off first (`line_wrappings.py`, `line_prefixes.py`).
What is left is in one of these grammars:

    2026-11-29 12:00:00,000 [INFO] [node] [workload:1(1) infra:?(?)] file.py:12 …      NVRx 0.5 and later
    [2026-11-29 12:00:00,000] [INFO] [ft_launcher123@node] …                           NVRx 0.4
    E1129 12:00:00.000000 123 torch/…/api.py:1002] …                                   torchelastic
    [rank1]:[E1129 12:00:00.000000000 ProcessGroupNCCL.cpp:1] …                        torch, C++
    [rank1]: …                                                                         torch, a traceback
    2026-11-29T12:00:00Z … · [2026-11-29 12:00:00] … · [Rank 1] 2026-11-29 12:00:00,000 - …      any other logger
    [12345.678] NVRM: … · Nov 29 12:00:00 node kernel: … · [Sun Nov 29 12:00:00 2026] …         a kernel log

Rules
- Stamps are local time without a zone, and torchelastic's have no year. `LocalClock` fills both in: the zone is that
  of this machine until a line tells local and universal time at once. The year is the one that brings a stamp nearest
  to the last line that had one; before any had, the latest by which it is not later than its file was written last (a
  day later, for zones). So lines of December and January rise over New Year.
- Nothing here raises on any bytes.
"""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass, replace

from rerail.collectors.masking import without_colours
from rerail.collectors.sources.line_prefixes import Labels, PassedOn, passed_on
from rerail.collectors.sources.line_wrappings import Unwrapped, begins_later, behind_the_bar
from rerail.collectors.sources.nvrx_lines import IN_PROCESS
from rerail.collectors.sources.tail import LONGEST_LINE

_RECEIVED = re.compile(r"^(?P<seconds>\d{9,10})\.(?P<fraction>\d{1,9}) (?:n\d{1,6} |(?P<process>p\d{1,6}) )?")
"""When, and from which node, a line was received: what `ts` and test rigs put in front. Behind the name of a node the
line's own stamps are kept, since that node's clock is another one. `ts` names none: it stamps every line, those that
tell an instant and those that do not, and so its clock dates them all."""
_FIRST_RECEIVED = 946_684_800
"""In seconds: what is less is a number and no instant."""
_NVRX = re.compile(
    r"^(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \[(?P<level>\w+)\] \[(?P<node>[^\]]*)\] "
    r"\[workload:(?P<rank>\?|\d+)\((?P<local>\?|\d+)\) infra:(?:\?|\d+)\((?:\?|\d+)\)\] "
    r"(?P<file>[\w.]+):\d+ ?(?P<text>.*)$"
)
_NVRX_04 = re.compile(
    r"^\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] \[(?P<level>\w+)\] "
    r"\[(?P<who>ft_launcher|RankMonServer|RankMonitorClient|InprocessRestarter)(?P<pid>\d+)?(?:@(?P<node>[^\]:]+))?"
    r"(?::(?P<rank>\d+|<none>))?(?:\.\w+)?\] (?P<text>.*)$"
)
_ELASTIC = re.compile(
    r"^(?P<level>[EWIFC])(?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d\.\d{6}) (?P<pid>\d+) "
    r"(?P<file>[^\s\]]+):\d+\] (?P<text>.*)$"
)
_ELASTIC_OLD = re.compile(
    r"^\[?(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]?(?: - | )(?:\[?(?P<before>[A-Z]{4,8})\]?(?: - |: | ))?"
    r"(?P<file>torch\.distributed(?:\.[a-z_]{1,40}){0,8})(?: - |: | )"
    r"(?:\[?(?P<level>[A-Z]{4,8})\]?(?: - |: | ))?(?P<text>.*)$"
)
_CPP = re.compile(
    r"^(?:\[rank(?P<rank>\d+)\]:)?\[(?P<level>[EWIF])(?P<date>\d{3,4}) (?P<clock>\d\d:\d\d:\d\d\.\d{6})\d* "
    r" {0,6}(?:\d{1,10} )?(?P<file>[\w.]+):\d+\] (?P<text>.*)$"
)
_CPP_UNDATED = re.compile(
    r"^(?:\[rank(?P<rank>\d+)\]:)?\[(?P<level>[EWIF]) (?P<file>[\w.]{1,80}):\d{1,7}\] (?P<text>.*)$"
)
_ELASTIC_UNDATED = re.compile(
    r"^(?P<level>ERROR|WARNING|INFO|CRITICAL):(?P<file>torch\.distributed[\w.]{0,120}):(?P<text>.*)$"
)
_RANK = re.compile(r"^\[rank(?P<rank>\d+)\]: ?(?P<text>.*)$")
_LOGGER = re.compile(
    r"^(?:\[[Rr]ank[ =:]?(?P<rank>\d{1,7})\] )?(?:(?P<before>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)[ :]{1,3})?"
    r"\[?(?P<day>\d{4}-\d\d-\d\d)[ T](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?P<zone>Z|[+-]\d\d:?\d\d)?\]?"
    r"(?P<text>[ :,|-].{0,65536})$"
)
_LOGGER_US = re.compile(
    r"^(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?P<text> - (?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL) - .{0,65536})$"
)
"""As the examples of Transformers and Accelerate set logging up: month first."""
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b")
_KERNEL = re.compile(
    r"^(?:<\d{1,3}>)?(?:(?:\[ {0,12}(?P<since>\d{1,9}\.\d{1,9})\]"
    r"|\[(?P<long>[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\]"
    r"|(?P<short>[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d) (?P<host>[\w.-]{1,120}) "
    r"|(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?P<offset>Z|[+-]\d\d:?\d\d)? (?P<host2>[\w.-]{1,120}) "
    r"|(?P<dmesg>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6})(?P<dmesg_offset>[+-]\d\d:\d\d) )"
    r" {0,2}(?:kernel: )?(?:\[ {0,12}\d{1,9}\.\d{1,9}\] )?)?"
    r"(?P<text>(?:NVRM: |nvidia-nvswitch"
    r"|Out of memory: |Memory cgroup out|oom[-_]|\w{1,20}\[\d{1,9}\]: segfault|traps: |mlx5_core"
    r"|\S{1,60} invoked oom-killer|NETDEV WATCHDOG|EXT4-fs error|I/O error|nfs: server|LustreError|mce: |EDAC "
    r"|.{0,60}(?:segfault at|Link is Down)"
    r"|(?:mlx\d\w{0,12}|infiniband|ib\w{1,12}|en\w{1,14}|eth\d{1,3}|bond\w{1,6}|hfi1\w{0,4}|bnxt\w{0,6}|i40e|ixgbe|ice"
    r"|qed\w{0,4})\b.{0,140}(?:[Ll]ink (?:is )?(?:[Dd]own|DOWN)\b|[Cc]able (?:is )?unplugged"
    r"|link status definitely down|[Cc]arrier lost|[Pp]ort \d{1,4} (?:state )?(?:is )?DOWN)).{0,65536})$"
)
_DOWN = re.compile(r"ink (?:is )?down|nplugged|definitely down|arrier lost|state DOWN", re.IGNORECASE)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_ISO = re.compile(
    r"^(?P<day>\d{4}-\d\d-\d\d)[ T](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?) ?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_XID = re.compile(r"(?<!S)Xid \((?:PCI:)?[0-9A-Fa-f:.]{4,20}\): {0,4}(\d{1,4})(?!\d)")
_DAY_NS = 86_400 * 1_000_000_000
_LEVELS = {"E": "ERROR", "W": "WARNING", "I": "INFO", "F": "FATAL", "C": "CRITICAL"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `at` is None where it carries no stamp; `speaker` says which grammar it fits."""

    text: str
    at: int | None = None
    speaker: str = "plain"
    """nvrx, monitor, torchrun, cpp, rank or plain."""
    level: str = ""
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    process: int | None = None
    file: str = ""
    stream: str = ""
    """Lines of one stream follow each other: a traceback stays in its stream."""
    raw: str = ""
    """The line without outer prefixes."""
    source: str = "stderr"
    """Whose words they are; `kernel` for lines of a kernel log."""
    code: str | None = None
    """`xid:79`, where it tells of one."""
    host: str | None = None
    """The machine that who passed the line on names."""
    is_zoned: bool = False
    """Its stamp says which time zone it is of."""


class LocalClock:
    """Turns stamps without zone or year into nanoseconds since 1970."""

    def __init__(
        self, zone_seconds: int | None = None, year: int | None = None, *, latest: int | None = None,
        near: int | None = None,
    ) -> None:  # fmt: skip
        """Of stamps without a year: `latest`, in ns, is when the last of them can have been written (None: now); `near`
        an instant that they lie about, as the last stamp with a year is; `year` the one to take where neither is told.
        """
        self.zone_seconds = zone_seconds
        self.near = near
        """The instant, in ns, to which a stamp without a year is nearest; None where nothing tells of one."""
        self._year = year
        self._latest = latest
        self._day: tuple[str, str, int | None] | None = None
        self._year_of_day = 0
        self.is_calibrated = False
        """The log itself told its zone."""
        self.behind_ns = 0
        """So much later than they say are stamps without a zone: the clock that wrote them was set to another zone."""
        self._minute = ""
        self._minute_seconds = 0
        self._minute_zone: int | None = None

    def calibrate(self, local: str, universal: str) -> None:
        """A line told both; their difference, rounded to a quarter of an hour, is the zone. No date tells none."""
        try:
            difference = _seconds(local) - _seconds(universal)
        except ValueError:
            return
        self.zone_seconds = round(difference / 900) * 900
        self.is_calibrated = True

    def instant(self, stamp: str) -> int | None:
        """Nanoseconds of `YYYY-MM-DD HH:MM:SS.ffffff`, or None where that is no date."""
        try:
            whole, _, fraction = stamp.replace(",", ".").partition(".")
            minute, second = whole[:-2], whole[-2:]
            if minute == self._minute and self._minute_zone == self.zone_seconds and second.isdigit() and second < "60":
                seconds = self._minute_seconds + int(second)  # most lines of a log share their minute with the last
            else:
                parts = time.strptime(whole, "%Y-%m-%d %H:%M:%S")
                if self.zone_seconds is None:
                    seconds = int(time.mktime((*parts[:6], 0, 0, -1)))
                else:
                    seconds = calendar.timegm(parts) - self.zone_seconds
                self._minute, self._minute_zone = minute, self.zone_seconds
                self._minute_seconds = seconds - parts.tm_sec
                if 946_684_800 <= seconds < 4_102_444_800:
                    self.near = self._minute_seconds * 1_000_000_000
            nanoseconds = seconds * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)
        except (ValueError, OverflowError):
            return None
        return nanoseconds + self.behind_ns if 946_684_800 <= seconds < 4_102_444_800 else None

    def without_year(self, month: str, day: str, clock: str) -> int | None:
        """Nanoseconds of a stamp that leaves the year out."""
        near = self.near
        found = self.instant(f"{self._year_for(month, day):04d}-{month}-{day} {clock}")
        if near is None:
            self.near = None  # its year was not told
        return found

    def _year_for(self, month: str, day: str) -> int:
        """The year of a day of which only that is told."""
        about = None if self.near is None else self.near // _DAY_NS
        if self._day == (month, day, about):
            return self._year_of_day
        if about is not None:
            near_year = time.gmtime(about * 86_400).tm_year
            days = {year: _day_number(year, month, day) for year in range(near_year - 4, near_year + 5)}
            years = [year for year, number in days.items() if number is not None]
            year = min(years, key=lambda each: abs((days[each] or 0) - about), default=near_year)
        elif self._year is not None and self._latest is None:
            year = self._year
        else:
            last = (time.time_ns() if self._latest is None else self._latest) // _DAY_NS + 1
            last_year = time.gmtime(last * 86_400).tm_year
            year = next(
                (
                    each
                    for each in range(last_year, last_year - 9, -1)
                    if (number := _day_number(each, month, day)) is not None and number <= last
                ),
                last_year,
            )
        self._day, self._year_of_day = (month, day, about), year
        return year


def _day_number(year: int, month: str, day: str) -> int | None:
    """The days from 1970 to a date; None where that year has no such day."""
    try:
        return calendar.timegm(time.strptime(f"{year:04d}-{month}-{day}", "%Y-%m-%d")) // 86_400
    except ValueError:
        return None


def universal_instant(stamp: str) -> int | None:
    """Nanoseconds of a stamp that is in universal time."""
    return LocalClock(zone_seconds=0).instant(stamp)


def why_broken(raw: bytes) -> str | None:
    """Why a line is no text, in a few words; None for one that is. What can be read of it is read all the same."""
    if len(raw) >= LONGEST_LINE:
        return f"longer than {LONGEST_LINE} bytes"
    if b"\0" in raw:
        return "holds NUL bytes, which were left out: a machine that crashed, or a disk that failed"
    if raw.isascii():
        return None
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8 at its byte {error.start}"
    return None


def read_line(raw: bytes, clock: LocalClock, labels: Labels | None = None) -> Line:
    """What one line of a log says; every line is at least plain text. `labels`: what is known of who passed it on."""
    raw = raw[begins_later(raw) :]
    text = behind_the_bar(without_colours(raw.decode("utf-8", "replace").rstrip("\r\n")))
    received = _RECEIVED.match(text)
    if received is not None:
        text = text[received.end() :]
        text = f"<{received['process']}> {text}" if received["process"] else text
    told = passed_on(text, Labels() if labels is None else labels)
    told.text = behind_the_bar(told.text)
    line = _read_inner(told.text, clock)
    at = _passed_on_at(told, clock)
    if received is not None and int(received["seconds"]) >= _FIRST_RECEIVED:
        is_only_clock = received.end() == received.end("fraction") + 1
        if is_only_clock or (at is None and line.at is None and IN_PROCESS.match(line.text)):
            line, at = replace(line, at=_received_at(received), is_zoned=True), None
    return replace(
        line,
        at=at if at is not None else line.at,
        is_zoned=line.is_zoned if at is None else bool(told.zone),
        rank=line.rank if line.rank is not None else told.rank,
        local_rank=line.local_rank if line.local_rank is not None else told.local_rank,
        host=told.host,
        stream=told.stream + line.stream,
        raw=told.text,
    )


def _received_at(received: re.Match[str]) -> int:
    return int(received["seconds"]) * 1_000_000_000 + int(received["fraction"].ljust(9, "0"))


def read_record(record: Unwrapped, clock: LocalClock, labels: Labels | None = None, prefix: str = "") -> list[Line]:
    """The lines of a JSON record of a log, each with what the record says about it; `prefix` stands before each."""
    if record.microseconds is not None:
        at, is_zoned = record.microseconds * 1000, True
    else:
        at, is_zoned = _instant(record.stamp, clock)
    lines = []
    for text in record.lines:
        line = read_line(f"{prefix}{text}".encode("utf-8", "replace"), clock, labels)
        if record.is_kernel and line.source != "kernel":
            told = _XID.search(text)
            line = replace(line, source="kernel", node=record.host, code=f"xid:{int(told[1])}" if told else None)
        lines.append(
            replace(
                line,
                at=at if at is not None else line.at,
                is_zoned=line.is_zoned if at is None else is_zoned,
                speaker="logger" if line.speaker == "plain" and at is not None else line.speaker,
                level=line.level or record.level,
                host=line.host or record.host,
                rank=line.rank if line.rank is not None else record.rank,
                stream=record.stream + line.stream,
            )
        )
    return lines


def _instant(stamp: str | None, clock: LocalClock) -> tuple[int | None, bool]:
    """When a stamp is, and whether it says its zone."""
    told = None if stamp is None else _ISO.match(stamp)
    if told is None:
        return None, False
    written = f"{told['day']} {told['clock']}"
    if told["zone"]:
        return zoned_instant(written, told["zone"]), True
    return clock.instant(written), False


def _passed_on_at(told: PassedOn, clock: LocalClock) -> int | None:
    if told.stamp is None:
        return None
    if told.is_short:
        month, day, hour = told.stamp.split()
        return clock.without_year(f"{_MONTHS.get(month, 0):02d}", f"{int(day):02d}", hour)
    return zoned_instant(told.stamp, told.zone) if told.zone else clock.instant(told.stamp)


def _read_inner(text: str, clock: LocalClock) -> Line:
    if match := _NVRX.match(text):
        speaker = "monitor" if match["file"].startswith("rank_monitor") else "nvrx"
        return Line(
            match["text"].strip(), clock.instant(match["ts"]), speaker, match["level"], match["node"],
            _number(match["rank"]), _number(match["local"]), None, match["file"],
        )  # fmt: skip
    if match := _NVRX_04.match(text):
        speaker = "monitor" if match["who"] == "RankMonServer" else "nvrx"
        return Line(
            match["text"].strip(), clock.instant(match["ts"]), speaker, match["level"], match["node"],
            _number(match["rank"]), None, _number(match["pid"]), match["who"],
        )  # fmt: skip
    if match := _ELASTIC.match(text):
        at = clock.without_year(match["month"], match["day"], match["clock"])
        return Line(
            match["text"].strip(), at, "torchrun", _LEVELS[match["level"]], None, None, None, _number(match["pid"]),
            match["file"],
        )  # fmt: skip
    if match := _ELASTIC_OLD.match(text):
        return Line(
            match["text"].strip(), clock.instant(match["ts"]), "torchrun", match["level"] or match["before"] or "",
            file=match["file"],
        )  # fmt: skip
    if match := _CPP.match(text):
        date = match["date"].rjust(4, "0")
        at = clock.without_year(date[:2], date[2:], match["clock"])
        return Line(
            match["text"].strip(), at, "cpp", _LEVELS[match["level"]], None, _number(match["rank"]), None, None,
            match["file"],
        )  # fmt: skip
    if match := _CPP_UNDATED.match(text):
        return Line(
            match["text"].strip(), None, "plain", _LEVELS[match["level"]], rank=_number(match["rank"]),
            file=match["file"],
        )  # fmt: skip
    if match := _ELASTIC_UNDATED.match(text):
        return Line(match["text"].strip(), None, "torchrun", match["level"], file=match["file"])
    is_of_dmesg = text[10:20:9] == "T,"
    if (
        is_of_dmesg
        or "kernel" in text or "NVRM" in text or text[:1] in "[<O" or " segfault at" in text or _DOWN.search(text)
    ) and (match := _KERNEL.match(text)):  # fmt: skip
        return _kernel_line(match, clock)
    if match := _RANK.match(text):
        return Line(match["text"], None, "rank", rank=_number(match["rank"]), stream=f"[rank{match['rank']}]")
    if match := _LOGGER.match(text):
        return _logger_line(match, clock)
    if text[2:3] == "/" and (match := _LOGGER_US.match(text)):
        at = clock.instant(f"{match['year']}-{match['month']}-{match['day']} {match['clock']}")
        return Line(match["text"].strip(), at, "logger" if at is not None else "plain", match["level"])
    return Line(text)


def _logger_line(match: re.Match[str], clock: LocalClock) -> Line:
    """A line of any logger that begins with a date."""
    stamp = f"{match['day']} {match['clock']}"
    at = zoned_instant(stamp, match["zone"]) if match["zone"] else clock.instant(stamp)
    text = match["text"].strip()
    level = match["before"]
    if level is None and (found := _LEVEL.search(text[:160])):
        level = found[1]
    return Line(
        text, at, "logger" if at is not None else "plain", level or "", rank=_number(match["rank"]),
        is_zoned=bool(match["zone"]),
    )  # fmt: skip


def _kernel_line(match: re.Match[str], clock: LocalClock) -> Line:
    """A line of a kernel log. A stamp that counts from the machine's start tells no instant."""
    at = None
    if match["long"]:
        _, month, day, hour, year = match["long"].split()
        at = clock.instant(f"{year}-{_MONTHS.get(month, 0):02d}-{int(day):02d} {hour}")
    elif match["short"]:
        month, day, hour = match["short"].split()
        at = clock.without_year(f"{_MONTHS.get(month, 0):02d}", f"{int(day):02d}", hour)
    elif match["dmesg"]:
        at = zoned_instant(match["dmesg"].replace("T", " "), match["dmesg_offset"])
    elif match["iso"]:
        stamp = match["iso"].replace("T", " ")
        at = zoned_instant(stamp, match["offset"]) if match["offset"] else clock.instant(stamp)
    told = _XID.search(match["text"])
    return Line(
        match["text"], at, "logger" if at is not None else "plain", "", match["host"] or match["host2"],
        source="kernel", code=f"xid:{int(told[1])}" if told else None,
        is_zoned=bool(match["offset"] or match["dmesg_offset"]),
    )  # fmt: skip


def zoned_instant(stamp: str, zone: str) -> int | None:
    """Nanoseconds of a stamp with its zone: `Z`, `+0100` or `-05:30`."""
    if zone == "Z":
        return universal_instant(stamp)
    digits = zone[1:].replace(":", "")
    seconds = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)
    return LocalClock(zone_seconds=seconds).instant(stamp)


def _seconds(stamp: str) -> float:
    whole, _, fraction = stamp.replace(",", ".").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%d %H:%M:%S")) + float(f"0.{fraction or 0}")


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None
