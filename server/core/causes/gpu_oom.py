"""A GPU ran out of memory."""

from __future__ import annotations

from rerail.server.core.cause_rules import CauseRule, line
from rerail.server.core.view import Domain

SAYS = "{where} ran out of GPU memory."

RULE = CauseRule(
    name="gpu_oom",
    domain=Domain.WORKLOAD,
    advice="Lower the micro-batch or sequence length, or find what grew; a restart meets the same memory.",
    order=14,
    lines=(
        line(
            r"(?:CUDA|HIP|XPU|MPS backend) out of memory"
            r"|\b(?:torch\.(?:cuda\.)?)?OutOfMemoryError\b"
            r"|(?:CUDA|HIP) error: out of memory|Cuda failure '?out of memory"
            r"|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
            r"|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Out of memory",
            SAYS,
            confidence=0.95,
            unless=r"catch|caught|retry|fall(?:ing)? back|java\.lang",
        ),
    ),
)
