"""It was asked for what cannot work: a port in use, a wrong argument, a missing file, a library that differs."""

from __future__ import annotations

from dataclasses import replace

from rerail.server.core import cuda_errors
from rerail.server.core.cause_rules import Case, CauseRule, Match, from_lines, line
from rerail.server.core.view import Domain

SAYS = "{where} could not start as configured: {words}."


def match(case: Case) -> Match | None:
    """The first line that tells of it. Settings are the run's: the rank that met one first is not to blame."""
    found = from_lines(case, RULE)
    return None if found is None else replace(found, rank=None)


RULE = CauseRule(
    name="configuration",
    domain=Domain.WORKLOAD,
    advice="Mend the setting that is named; a restart with the same settings ends the same way.",
    match=match,
    order=26,
    lines=(
        line(
            r"PBS: job killed: (?:ncpus|cpupercent)\b[^\n]{0,60}",
            "The scheduler killed the job: it used more processors than it asked for ({words}).",
            confidence=0.9,
            advice="Ask for as many processors as its threads and loader workers keep busy, or start fewer of them.",
        ),
        line(
            r"EADDRINUSE|address already in use"
            r"|failed to (?:listen|bind) on any local network address[^\n]{0,80}",
            "{where} could not listen: its port is taken ({words}).",
            confidence=0.9,
        ),
        line(
            r"error: (?:unrecognized arguments|the following arguments are required|argument "
            r"[^\n]{0,60}(?:invalid|expected))[^\n]{0,120}"
            r"|ModuleNotFoundError: [^\n]{0,120}|ImportError: [^\n]{0,160}"
            r"|cannot open shared object file[^\n]{0,80}|Failed to import \S{1,200} because of the following error"
            r"|(?:undefined symbol|version `?[A-Z]{3,8}[\w.]{1,40}'? not found)[^\n]{0,80}",
            SAYS,
            confidence=0.85,
            unless=r"libnvidia-ml|pynvml|NVML",
        ),
        line(
            r"(?:ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull|CreateContainerConfigError"
            r"|CreateContainerError|RunContainerError|ContainerCannotRun|StartError)\b[^\n]{0,160}",
            SAYS,
            confidence=0.7,
            sources=("kubernetes",),
        ),
        line(
            r"Torch not compiled with CUDA enabled|no CUDA-capable device is detected"
            rf"|{cuda_errors.pattern('configuration')}"
            r"|CUDA driver version is insufficient"
            r"|NVIDIA driver on your system is too old"
            r"|no kernel image is available for execution|invalid device ordinal"
            r"|Duplicate GPU detected|NCCL[^\n]{0,40}version mismatch[^\n]{0,80}"
            r"|Default process group has not been initialized"
            r"|(?:environment variable|environ)[^\n]{0,40}(?:MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE)"
            r"[^\n]{0,40}(?:expected|not set|missing)[^\n]{0,40}"
            r"|world size[^\n]{0,60}(?:is not divisible|not divisible|must be)[^\n]{0,80}"
            r"|(?:ConfigError|ValidationError|ConfigurationError|MissingMandatoryValue|ConfigAttributeError)\b"
            r"[^\n]{0,160}",
            SAYS,
            confidence=0.8,
        ),
    ),
)
