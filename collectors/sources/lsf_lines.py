"""LSF lines: the report that LSF writes into the output of a job that is over (`bsub -o`).

It begins with `Sender: LSF System`, quotes the script, says how the job ended and when, and ends with where the job's
own output stands: above it in a file, below it in a mail.
"""

from __future__ import annotations

import re

HEAD = re.compile(r"Sender: LSF System <")
TERMINATED_AT = re.compile(
    r"Terminated at \w{3} (?P<month>\w{3}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{4})$"
)
TERM = re.compile(r"TERM_[A-Z_]{3,40}: ")
EXIT = re.compile(r"Exited (?:with exit code (?P<code>\d{1,3})|by signal (?P<signal>\d{1,3}))\.")
COMPLETED = re.compile(r"Successfully completed\.$")
ENDS = re.compile(
    r"The output \(if any\) (?P<where>is above|follows)|Read file <.{1,300}> for stdout output of this job"
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def stamp(told: re.Match[str]) -> str | None:
    """`YYYY-MM-DD HH:MM:SS` of `TERMINATED_AT`, in the cluster's local time; None for a month that is none."""
    if told["month"] not in MONTHS:
        return None
    return f"{told['year']}-{MONTHS.index(told['month']) + 1:02d}-{int(told['day']):02d} {told['clock']}"
