"""`rerail retain`: the logs of runs that ended long ago are let go.

Rules
- Without `--yes` nothing is deleted: what would be is shown. There is no way back.
- Only logs go. Views, timelines, incidents, checkpoints and rollups stay, and the run says that its log is gone.
- A log goes only where its run ended, and was heard last, before the limit; an open run loses nothing, however old.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict

from rerail.server.commands import opened_store, settings_of
from rerail.server.core.report import iso
from rerail.server.errors import SettingsError

DAY_NS = 86_400 * 10**9
SHOWN = 20


def retain(parsed: argparse.Namespace) -> int:
    """Show which logs are old enough, and delete them where that is confirmed."""
    settings = settings_of(parsed)
    if settings.keep_log_days is None:
        raise SettingsError("logs are kept for ever: say --keep-log-days, or set RERAIL_KEEP_LOG_DAYS or keep_log_days")
    ended_before = time.time_ns() - settings.keep_log_days * DAY_NS
    with opened_store(settings) as store:
        expired = store.expired_logs(ended_before)
        gone = [log for log in expired if store.let_log_go(log.run_id, ended_before)] if parsed.yes else []
    listed = gone if parsed.yes else list(expired)
    if parsed.json:
        logs = [{**asdict(log), "ended_at": iso(log.ended_at)} for log in listed]
        print(json.dumps({"ended_before": iso(ended_before), "deleted": bool(parsed.yes), "logs": logs}, indent=1))
        return 0
    for log in listed[:SHOWN]:
        print(f"{log.run_id}: ended {iso(log.ended_at)}, {log.facts:,} facts, {log.bytes / 1e6:.1f} MB")
    if len(listed) > SHOWN:
        print(f"… and {len(listed) - SHOWN:,} more")
    facts, megabytes = sum(log.facts for log in listed), sum(log.bytes for log in listed) / 1e6
    whole = f"{len(listed):,} logs of runs that ended before {iso(ended_before)}: {facts:,} facts, {megabytes:.1f} MB"
    if parsed.yes:
        print(f"deleted {whole}; an SQLite file keeps its size and uses the room again", file=sys.stderr)
    else:
        print(f"would delete {whole}; --yes does it, and there is no way back", file=sys.stderr)
    return 0
