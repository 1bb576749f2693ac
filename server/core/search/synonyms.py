"""Synonyms: the field's words in English and in Korean, so that a question in one finds what was written in the other.

Rules
- A line of the table is one thing under its names; a name of several words is found where these stand side by side.
- A Korean name of one letter is not among them (행 is in 실행, a run, and in much else), nor one that means other
  things more often than the field's.
"""

from __future__ import annotations

ALIKE: tuple[tuple[str, ...], ...] = (
    ("timeout", "time out", "타임아웃", "시간 초과", "시간초과"),
    ("checkpoint", "체크포인트"),
    ("node", "노드"),
    ("rank", "랭크"),
    ("cluster", "클러스터"),
    ("hang", "멈춤", "응답 없음", "무응답"),
    ("stall", "정체"),
    ("deadlock", "교착"),
    ("restart", "재시작"),
    ("retry", "재시도"),
    ("rollback", "롤백"),
    ("out of memory", "oom", "메모리 부족", "메모리부족"),
    ("memory", "메모리"),
    ("crash", "크래시"),
    ("failure", "실패"),
    ("outage", "장애"),
    ("error", "에러", "오류"),
    ("exception", "예외"),
    ("heartbeat", "하트비트"),
    ("network", "네트워크"),
    ("driver", "드라이버"),
    ("storage", "스토리지", "저장소"),
    ("disk", "디스크"),
    ("permission", "권한"),
    ("preemption", "선점"),
    ("batch", "배치"),
    ("interval", "간격", "주기"),
    ("threshold", "임계값"),
    ("alert", "알림"),
    ("incident", "인시던트"),
)

_OTHERS: dict[str, tuple[str, ...]] = {}
for _names in ALIKE:
    for _name in _names:
        _OTHERS[_name] = (*_OTHERS.get(_name, ()), *(each for each in _names if each != _name))

MOST_WORDS = max(len(name.split()) for name in _OTHERS)
"""Of a name."""


def synonyms(name: str) -> tuple[str, ...]:
    """The other names of what is called so, in the one form of a text (`words.plain`); empty where none is known."""
    return _OTHERS.get(name, ())
