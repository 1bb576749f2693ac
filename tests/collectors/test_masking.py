"""No secret leaves a node in a piece of evidence."""

from __future__ import annotations

import pytest

from rerail.collectors.masking import LONGEST_TEXT, masked, masked_arguments, masked_bytes, masked_writing


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("GET https://user:hunter2@store.example/x", "hunter2"),
        ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
        ("curl -H 'authorization: Basic dXNlcjpwYXNz'", "dXNlcjpwYXNz"),
        ("WANDB_API_KEY=0123456789abcdef", "0123456789abcdef"),
        ('{"password": "swordfish", "user": "me"}', "swordfish"),
        ("aws_secret_access_key = wJalrXUtnFEMI", "wJalrXUtnFEMI"),
        ("--hf-token hf_abcdefghijklmnop", "hf_abcdefghijklmnop"),
        ("push with hf_abcdefghijklmnopqrst failed", "hf_abcdefghijklmnopqrst"),
        ("key AKIAIOSFODNN7EXAMPLE expired", "AKIAIOSFODNN7EXAMPLE"),
        ("https://bucket/x?X-Amz-Signature=deadbeef&y=1", "deadbeef"),
        ("https://store/x?sig=c2VjcmV0&se=2026", "c2VjcmV0"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "SyA1234567890abcdefghijklmnop"),
        ("token ya29.a0AfH6SMBx-abcdefghijklmnop", "a0AfH6SMBx-abcdefghijklmnop"),
        ("DefaultEndpointsProtocol=https;AccountName=x;AccountKey=Zm9vYmFyYmF6;Suffix=y", "Zm9vYmFyYmF6"),
        ("BlobEndpoint=https://x/;SharedAccessSignature=sv=2026&sig=abc%3D", "sv=2026"),
        (
            "openai.AuthenticationError: Incorrect API key provided: sk-proj-abcdefghij0123456789",
            "abcdefghij0123456789",
        ),
        ("wandb: logging in with 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),
        ("https://storage/x?X-Goog-Signature=deadbeef&y=1", "deadbeef"),
        ("POST https://hooks.slack.com/services/T000/B000/abcdefgh failed", "abcdefgh"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----\nafter", "IBAAKC"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk", "b3BlbnNzaC1rZXk"),
        ("client_secret: 'abc/def+ghi'", "abc/def+ghi"),
        ("https://x-access-token:ghs_abc@github.example/x.git", "ghs_abc"),
        ("Cookie: session=0a1b2c3d; theme=dark", "0a1b2c3d"),
        ("{'Set-Cookie': 'id=0a1b2c3d; Path=/'}", "0a1b2c3d"),
        ("refused, sig=c2VjcmV0c2VjcmV0c2VjcmV0 was sent", "c2VjcmV0c2VjcmV0c2VjcmV0"),
        ("PHPSESSIONID=0a1b2c3d4e", "0a1b2c3d4e"),
        ("+ curl -sS -u bob:curlpw123 https://x/", "curlpw123"),
        ("curl --user=bob:curlpw123 https://x/", "curlpw123"),
        ("mysqldump -u root -pmysqlpw1 runs", "mysqlpw1"),
        ("sshpass -p sshpw1 ssh n1", "sshpw1"),
        ("redis-cli -h cache -a redispw1 ping", "redispw1"),
        ("비밀번호: kpass1234", "kpass1234"),
        ("로그인 실패 (암호=kpass1234)", "kpass1234"),
        ("토큰：kpass1234", "kpass1234"),
        ('{"msg": "{\\"password\\": \\"jpass1234\\"}"}', "jpass1234"),
        ("os.environ['SECRET_KEY']='envpass1234'", "envpass1234"),
        ("git clone https://0123456789abcdef0123456789abcdef@git.example/x.git", "0123456789abcdef"),
        ("docker login -u bob -p dockpw123 reg.example", "dockpw123"),
        ("connect pw=shortpw12 host=n1", "shortpw12"),
        ("密码：kpass1234", "kpass1234"),
        ("Mot de passe : kpass1234", "kpass1234"),
        ("Пароль: kpass1234", "kpass1234"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig", "eyJzdWIiOiIxMjM0In0"),
    ],
)
def test_a_secret_is_masked_and_its_name_is_kept(text: str, secret: str) -> None:
    assert secret not in masked(text)
    assert "***" in masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "failed (exitcode: -9) local_rank: 1 (pid: 28989) of binary: /opt/venv/bin/python",
        "consumed tokens: 4194304 | tokens_per_second=51234.1",
        "loading tokenizer: Llama-3-tokenizer",
        "mysql -u root -p runs",
        "curl -u bob https://x/",
        "ssh://git@git.example/x.git",
        "PWD=/work/train pwd: /work",
        "토큰 4096 개, 비밀번호 없음",
        "def f(x): sig=3 # a short sig",
        "Did not get subsequent heartbeat. Waited 5.00 seconds.",
        "[rank1]: RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:11684.",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text


def test_a_secret_in_two_words_of_a_command_line_is_masked() -> None:
    words = ("train.py", "--api-key", "12345", "--token=abc", "--steps", "10")
    assert masked_arguments(words) == ("train.py", "--api-key", "***", "--token=***", "--steps", "10")


def test_endless_text_is_cut_quickly() -> None:
    assert len(masked("x" * 1_000_000)) == LONGEST_TEXT
    assert len(masked("token" * 100_000)) <= LONGEST_TEXT


def test_control_characters_are_replaced() -> None:
    assert masked("a\x00b\x1b[31mc\x1bx\td\n") == "a�bc�x\td\n"


def test_a_whole_file_is_masked_and_nothing_else_of_it_is_lost():
    lines = [f"line {number} token=abcdefgh{number}" for number in range(5000)] + ["x" * 40_000]
    shown = masked_bytes("\n".join(lines).encode()).decode()
    assert "abcdefgh" not in shown
    assert [line.split()[1] for line in shown.split("\n")[:5000]] == [str(number) for number in range(5000)]
    assert shown.endswith("x" * 40_000)


def test_a_key_that_lies_across_the_pieces_of_a_text_is_masked_to_its_end() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpemline\n" * 30 + "-----END RSA PRIVATE KEY-----\n"
    for length in range(11_500, 12_100, 7):
        text = "é" * 99 + "x" * (length - 100) + "\n" + key + "after\n" * 3000
        for shown in (masked_writing(text), masked_bytes(text.encode()).decode()):
            assert "pemline" not in shown and shown.count("after") == 3000 and "***" in shown
    endless = "é한" * 900_000
    assert masked_bytes(endless.encode()).decode() == endless
    assert masked_bytes(b"caf\xe9\n") == "caf\ufffd\n".encode()


def test_a_pass_with_a_word_is_a_secret_and_a_pass_with_a_number_is_a_figure() -> None:
    assert masked("MASTER_PASS: topsecret77 forward_pass: 12.5ms num_pass=3") == (
        "MASTER_PASS: *** forward_pass: 12.5ms num_pass=3"
    )


def test_links_and_titles_of_terminals_are_taken_off() -> None:
    assert masked("\x1b]8;;http://evil\x07click\x1b]8;;\x07 \x1b]0;title\x1b\\x") == "click x"
