"""Telling lines: which lines of any log may be evidence, found fast.

Rules
- Two sieves. `LITERALS` are byte strings, one of which stands in every line that could matter, to a cause or to the
  story of attempts: they are searched in whole blocks, and most of a log is never split into lines. `is_telling` looks
  at what is left and decides whether worker output is evidence.
- Both err on the side of taking too much: what a line means is decided where causes are judged.
- The grammar of launchers (`launcher_log.py`) is not here, only words that its lines hold.
"""

from __future__ import annotations

import re

from rerail.collectors.sources.torchrun_lines import NOT_TELLING

LITERALS: tuple[bytes, ...] = (
    b"Traceback", b"rror", b"xception", b"NVRM", b"SXid", b"BadZip", b"Bad CRC",
    b"atchdog", b"atal ", b"illed", b"ut of memory", b"oom",
    b"OOM",
    b"imed out", b"imeout", b"bort", b"egmentation", b"exitcode", b"orker group", b"ignal", b"eartbeat", b"_ex: ",
    b"ailed", b"FAILED", b"onnection", b"NCCL WARN", b"Event: ", b"endezvous", b"CANCELLED", b"reempt", b"terrupt",
    b"not responding", b"ERROR", b"NaN", b": nan", b"finite", b"orrupt", b"ismatch", b"topping", b"cpp:", b"erminat",
    b"SIG", b"Evict", b"hung", b"stuck", b" EXC ", b"EARLY", b"segfault", b"NotReady", b"launch configs", b"No space",
    b"torchrun", b"ft_launcher", b"NestedRestarter", b"TORCHELASTIC_ENABLE", b"exit code",
    b"spike", b"SDC", b"Link is Down",
    b"unreachable", b"dumped",
    b"xiting program", b"ashes not", b"(): ", b"GPU is lost",
    b"double free", b"in use", b"ailure",
    b"uota exceeded", b"nplugged", b"ink down", b"ink DOWN", b"definitely down",
    b"xited with code", b"rashed with", b"EXIT CODE", b"lowdown", b" died", b"marked dead", b"retry count",
    b"nstance-action", b"ebalance rec", b"aintenance", b"EventType", b"not known", b"Stale file", b"ransport endpoint",
    b"Read-only file", b"nfs: server",
    b"MPI_ABORT", b"Process name", b"DCGM_FR", b"access fault", b"_STATUS_", b"Duplicate GPU", b"ncclInvalid",
    b"wc_status", b"IBV_WC", b"OM when alloc",
    b"ack-off", b"ackoff", b"BackOff", b"[launch.py:", b"GPU reset", b"times out",
    b"Kernel panic", b"eproducible", b"achine Check", b"/task:", b"nresponsive", b"low on resource", b"phemeral",
    b"EmptyDir",
    b"# EXIT rc", b"LSF System", b"raining done", b"raining compl", b"raining finish", b"inished training",
    b"ost communication", b"emote daemon", b"has been open", b"is open for", b"ut of section",
    b"one waiting", b"cript ended", b"cript finished", b"cript exited", b"cript has ", b"ed normally", b"ing normally",
    b'"MESSAGE":[', b'"MESSAGE": [', b'"MESSAGE" : [',
)  # fmt: skip
"""None of them holds a digit: lines are also compared without their digits. The last are of a journal's record that
spells its words as bytes: no other literal can be found in it."""

_TELLING = re.compile(
    r"out of memory|OutOfMemory|CUDA error|CUDA_ERROR|NCCL (?:WARN|error)|ncclSystemError|Watchdog caught"
    r"|watchdog|Fatal Python error|Segmentation fault|segfault at|Bus error|bus error|oom[-_]|OOM ?[Kk]ill"
    r"|terminate called|what\(\):|No space left|quota exceeded|Connection (?:closed|reset|refused|aborted)"
    r"|Broken pipe|[Aa]ddress already in use|[Tt]imed out|TIMED OUT|monitoredBarrier|\bS?Xid\b|BadZipFile"
    r"|Bad CRC|fallen off the bus"
    r"|GPU is lost|GPU has been lost|ECC error|killed by signal|Killed process|died with <Signals|DUE TO "
    r"|CANCELLED|NODE_FAIL|not responding|due to failure of node|[Pp]reempted|PREEMPT|\bEvicted\b|OOM Killed"
    r"|memory limit|Traceback|(?:Error|Exception|Failure|Interrupt|Abort)\b ?[:(]|Error$|death signal"
    r"""|got signal|Interruption\.|_ex: |\bloss\b[\"' ]{0,2}[:=] ?(?:nan|inf)"""
    r"""|grad[ _]norm[\"' ]{0,2}[:=] ?(?:nan|inf)|\b(?:NaN|nan|Inf)\b[^\n]{0,60}\b(?:loss|grad)"""
    r"|\b(?:loss|grad)\w{0,6}\b[^\n]{0,60}\b(?:NaN|Inf|non-?finite|not finite|spike|diverged)|[Ss]ilent data"
    r"|\bSDC\b|checksum|hashes not|[Cc]orrupt|unexpected pos|shared memory|DataLoader|mismatch"
    r"|unrecognized arguments|required: |heartbeat|Heartbeat monitor|stuck for|hang detected|hung|GIL"
    r"|exiting program|persistent error|transient error|task \d{1,7}: |exited on signal|return code = |Out Of Memory"
    r"|running low on memory|step aborted|Node failure|DEADLINE_EXCEEDED|coordination service|Uncaught|Unhandled"
    r"|\b(?:ERROR|CRITICAL|FATAL)\b[^\n]{0,120}(?:Error|Exception): "
    r"|RestartAbort|EARLY TERMINATION|more restarts|BackoffLimit|TaintManager|NodeNotReady|No route to host"
    r"|nfs: server \S{1,120} OK|Network is unreachable|Link is Down|Stale file|Read-only file system|Input/output error"
    r"|Transport endpoint|core dumped|Illegal instruction|free\(\): |double free|SIGSEGV|SIGABRT"
    r"|(?:m|re|c)alloc\(\): |munmap_chunk|malloc_consolidate\("
    r"|SIGBUS|last enqueued|signal dumping|dump signal|failed collective|NCCL operations|Got completion|Kubelet"
    r"|CheckpointException|failed to (?:save|load|write)|I/O error|[Ll]ink (?:is )?[Dd](?:own|OWN)\b"
    r"|[Cc]able (?:is )?unplugged"
    r"|definitely down|[Cc]arrier lost|state DOWN"
    r"|Duplicate GPU|ncclInvalid|[Ll]oss is (?:nan|NaN|inf)\b"
    r"|^Killed\s*$|!!!! FATAL|SLICE_FAILURE|Connect timeout|Failed to import"
    r"|Child process with PID"
    r"|exited with code|crashed with exit code|EXIT CODE: |terminated with signal|\bline \d{1,6}: {1,8}\d{1,10} [A-Z]"
    r"|died unexpectedly|A worker died|worker process has died|marked dead|has died|memory pressure|OOM when allocating"
    r"|Resource exhausted|[Cc]uda failure|CUDA failure|HIP error|cudaError|launch failure|RmInitAdapter|DCGM_FR_"
    r"|dcgm[^\n]{0,80}[Ff]ail|thermal (?:slowdown|violation)|Memory access fault|_STATUS_[A-Z]|cublas runtime error"
    r"|Transport retry|efa_rdm_|libfabric:|IBV_WC_|wc_status|UCX {1,3}ERROR|PMIX ERROR"
    r"|any network address|unexpectedly closed"
    r"|Name or service not known|name resolution|Lustre|transport endpoint|Slow ?Down|nccl\w{1,40}\([^\n]{0,80} failed"
    r"|[Ss]pot interruption|Spot Instance Inter|be (?:interrupted|terminated|reclaimed|preempted)|instance-action"
    r"|HOST_MAINTENANCE|aintenance[- ]event|undergoing maintenance|rebalance rec|EventType|this job is preempted"
    r"|Host EC2|MPI_ABORT was|Process name: \[\[|Unexpected result"
    r"|[Bb]ack-off [^\n]{0,20}restarting failed|CrashLoopBackOff|specified backoff limit|Killing subprocess \d"
    r"|determine the device handle|SYSTEM_NOT_READY|SystemNotReady|not yet initialized|Ray killed this|has crashed"
    r"|HW Exception by GPU|GPU reset begin|GSP Timeout|lame workers found|register times out|Stream synchronize timeout"
    r"|termination is imminent|(?:Error|Exception) (?:saving|writing|uploading)"
    r"|not reproducible|debug info, due to|Kernel panic - not syncing|Machine Check Exception"
    r"|^/job:\w{1,60}/(?:replica:\d{1,4}/)?task:\d{1,7}\s*$"
    r"|task:\d{1,7}[^\n]{0,40}unhealthy|watchdog hang|NET/OFI[^\n]{0,160}(?:[Uu]nresponsive|[Uu]nreachable)"
    r"|low on resource|ephemeral (?:local )?storage|EmptyDir volume|tasks [\d,-]{1,60}: Exited"
    r"|socket times out|modify QP|OPS function error|detected fatal errors|job killed"
    r"|[Ll]ost communication with|Remote daemon: \["
    r"|Section [^\n]{1,120} (?:has been|is) open for|Was out of section for"
    r"|\b[Ss]cript (?:has )?(?:ended|finished|exited)\b|\bexit(?:ed|ing) (?:normally\b|with (?:exit )?code:? 0\b)"
)
_NEVER = re.compile(
    r"num nan iterations|\bINFO\b[^\n]{0,80}retry|timeout ?=|timeout: \d|--[\w-]{0,40}timeout"
    r"|waitForInput: socket [^\n]{0,400}timed out after \d{1,4}ms"
)
"""The last: torch's store polls, and complains each time that nothing came within so short a time."""
_ALWAYS = re.compile(r"Error|ERROR|rror:|Xid|out of memory|oom|CANCELLED|killed", re.IGNORECASE)


def may_be_telling(raw: bytes) -> bool:
    """Whether a line holds one of the words without which it is none."""
    return any(literal in raw for literal in LITERALS)


def is_telling(text: str) -> bool:
    """Whether a line of worker output, outside a traceback, may be evidence."""
    text = text[:8000]
    if _TELLING.search(text) is None or NOT_TELLING.search(text):
        return False
    return _NEVER.search(text) is None or _ALWAYS.search(text) is not None
