"""Flight recorder dumps as a format of `rerail import`: one file per rank, or a folder of them.

Rules
- A dump is one binary file, read whole. The rank stands in its name; the groups that gloo's recorder does not tell are
  read from side-cars (`….sidecar.json`) in the same folder.
- The run has to be told: nothing in a dump names it. Its evidence belongs to the attempt that was alive at the last
  operation recorded.
- A folder of an attempt (`attempt_1`) on the way to a dump tells which attempt it is of: dumps of several are not put
  together. Folders are looked through with what lies in them.
- A fact's identity is the SHA-256 of the file, the same as that of a file given on an incident's page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from rerail.collectors.formats import ImportFormat, OldFile
from rerail.collectors.sources.launcher import ATTEMPT_IN_PATH
from rerail.collectors.uploads import Kind, understood
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Evidence, Fact
from rerail.server.core.flight_recorder.dump_sets import ATTEMPT
from rerail.server.core.flight_recorder.refusal import MOST_BYTES

KINDS = (Kind.FLIGHT_RECORDER, Kind.PROCESS_GROUPS)


def read(file: OldFile) -> Iterator[Fact]:
    """The evidence in a dump or a side-car."""
    yield from _read(file, {})


def read_together(files: Sequence[OldFile]) -> Iterator[Fact]:
    """The same of several files, without those that are copies of another rank's."""
    known: dict[str, tuple[str, int]] = {}
    for file in files:
        yield from _read(file, known)


def _read(file: OldFile, known: dict[str, tuple[str, int]]) -> Iterator[Fact]:
    """`known`: SHA-256 of each dump → its name, and the rank that the name says."""
    if file.run is None:
        file.refuse(1, FactError("run", None, "a dump does not name its run: say --run"))
        return
    content = file.content()
    found = understood(file.path, content)
    if found.kind not in KINDS:
        file.refuse(1, FactError("", file.path, "not a flight recorder dump"))
        return
    for words in found.refused:
        file.refuse(1, FactError("", file.path, words))
    for words in found.remarks:
        file.remark(words)
    digest = sha256(content).hexdigest()
    rank = found.pieces[0].rank if found.pieces and found.kind is Kind.FLIGHT_RECORDER else None
    if rank is not None:
        name, owner = known.setdefault(digest, (Path(file.path).name, rank))
        if owner != rank:
            words = f"it is byte for byte {name}, a copy, and nothing that rank {rank} wrote"
            file.refuse(1, FactError("rank", rank, words))
            return
    for seq, piece in enumerate(found.pieces):
        at = piece.at or instant_beside(file.path) or file.at
        if at is None:
            file.refuse(1, FactError("at", None, "nothing says when it was; put the dump of the same rank beside it"))
            continue
        yield Evidence(
            run=file.run, emitter=f"artefact/{digest}", artefact=digest, seq=seq, at=at, source=piece.source,
            text=piece.text, code=piece.code,
            rank=piece.rank, node=piece.node, attributes=with_attempt(piece.attributes, file.path),
        )  # fmt: skip


def with_attempt(attributes: tuple[tuple[str, str], ...], path: str) -> tuple[tuple[str, str], ...]:
    """The attributes of a dump, and the attempt that a folder on its path names."""
    found = ATTEMPT_IN_PATH.findall(str(Path(path).parent))
    return attributes if not found else tuple(sorted((*attributes, (ATTEMPT, str(int(found[-1]))))))


def instant_beside(path: str) -> int | None:
    """When the dump that a side-car lies beside was: a side-car has no time of its own."""
    stem = path.removesuffix(".sidecar.json")
    if stem == path:
        return None
    for name in (stem, f"{stem}.json", f"{stem}.pickle"):
        dump = Path(name)
        if dump.is_file() and dump.stat().st_size <= MOST_BYTES:
            found = understood(name, dump.read_bytes())
            return next((piece.at for piece in found.pieces if piece.at is not None), None)
    return None


def belongs(name: str) -> bool:
    """Whether a file of a folder is looked at: hidden files are not, nor what is plainly something else."""
    return not name.startswith(".") and not name.endswith((".log", ".txt", ".py", ".md", ".png"))


FORMAT = ImportFormat(
    name="flight-recorder",
    summary="PyTorch flight recorder dumps, pickle or JSON: files named by their rank, or folders of them",
    read=read,
    in_folder=belongs,
    in_subfolders=True,
    read_together=read_together,
    example="dumps/ --run llm",
    tells="which rank did not come to a collective, lags or differs, and what was pending",
    cannot_tell="steps, attempts, and when a dump without stamps was written; whose fault it was that a rank did not "
    "come",
)
