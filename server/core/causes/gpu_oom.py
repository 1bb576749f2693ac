"""A GPU ran out of memory."""

from __future__ import annotations

from rerail.server.core import cuda_errors
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
            rf"|{cuda_errors.pattern('gpu_oom')}"
            r"|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
            r"|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: (?:Out of memory|[^\n]{0,80}Ran out of memory)"
            r"|OOM when allocating tensor|ResourceExhaustedError: failed to allocate memory"
            r"|Ran out of memory (?:trying to allocate|in memory space)|Attempting to reserve[^\n]{0,80}HBM",
            SAYS,
            confidence=0.95,
            unless=r"catch|this is not a failure|attempts to|retry|fall(?:ing)? back|java\.lang|low on memory"
            r"|allocator_CPU|by allocator cpu",
        ),
    ),
)
