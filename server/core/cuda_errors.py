"""CUDA errors: which class a failed call of CUDA tells of, by its number or by its words.

The same failure is told by PyTorch (`CUDA error: unspecified launch failure`), by NCCL (`Cuda failure 719 'unspecified
launch failure'`, in old releases the words alone), by TensorFlow (`CUDA_ERROR_LAUNCH_FAILED`) and by the runtime's own
printers (`cudaError_t 4 : "unspecified launch failure"`): whoever tells it, it is one thing. ROCm's HIP has its words.

Rules
- Numbers are those of CUDA 10.1 and later (`enum cudaError` of the runtime API); older ones differ for most errors, but
  nobody printed them without the words.
- Words count before numbers. A number that is not in the table is an error of CUDA all the same, of no known class.
"""

from __future__ import annotations

ERRORS: dict[str, dict[int, str]] = {
    "gpu_oom": {2: "out of memory"},
    "gpu_hardware": {
        214: "uncorrectable ECC error encountered",
        220: "uncorrectable NVLink error",
        714: "hardware stack error",
        717: "operation not supported on global/shared address space",
    },
    "fabric": {802: "system not yet initialized"},
    "configuration": {
        35: "CUDA driver version is insufficient",
        100: "no CUDA-capable device is detected",
        101: "invalid device ordinal",
        209: "no kernel image is available for execution",
        803: "system has unsupported display driver",
    },
    "user_exception": {
        700: "an illegal memory access",
        702: "the launch timed out and was terminated",
        710: "device-side assert",
        715: "an illegal instruction",
        716: "misaligned address",
        718: "invalid program counter",
        719: "unspecified launch failure",
    },
}
"""Class → number → words, as they begin; `fabric` is of `gpu_hardware`, and none that a GPU is to blame for."""

MENTIONS = r"(?:CUDA|HIP)[ _](?:driver |runtime )?(?:error|failure)"
"""How every printer begins but the runtime's own."""
_TOLD = rf"(?:{MENTIONS}|cudaError_t|\bError(?= 802:))"
_BETWEEN = r"""(?:_t)?[ :(]{0,4}"""
_NUMBERED = r"""(?:\d{1,4}\)?[ :]{1,4})?['"]?"""


def pattern(cause: str) -> str:
    """A regular expression for the failed calls that tell of a class."""
    errors = ERRORS[cause]
    words = "|".join(errors.values())
    numbers = "|".join(str(number) for number in errors)
    return rf"{_TOLD}{_BETWEEN}(?:{_NUMBERED}(?:{words})[^\n]{{0,60}}|(?:{numbers})(?![\d.]))"


ANY = rf"""{MENTIONS}(?: \d{{1,4}} ?['"(]| [1-9]\d\d\b(?! times)| '[a-z]|: [a-z])"""
"""Any failed call, of whatever class."""
