"""No file of the repository contains a credential in one of the forms that services and tools give them."""

import re
import subprocess

import pytest

from tests.tables import ROOT

FORMS = {
    "private key": rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----(?:\s|\\n)+[A-Za-z0-9+/=]{40}",
    "access key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "token of GitHub": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60})",
    "token of GitLab": rb"\bglpat-[A-Za-z0-9_-]{20}",
    "token of Slack": rb"\bxox[abeoprs]-[A-Za-z0-9-]{20}",
    "key of Google": rb"\bAIza[0-9A-Za-z_-]{35}\b",
    "token of PyPI": rb"\bpypi-AgEI[A-Za-z0-9_-]{50}",
    "token of npm": rb"\bnpm_[A-Za-z0-9]{36}\b",
    "JSON web token": rb"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10}",
    "password of a registry": rb'"auths?"\s*:\s*"[A-Za-z0-9+/]{20,}={0,2}"',
}
ANY = re.compile(b"|".join(FORMS.values()))


def test_no_file_contains_a_credential() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    names = [name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]
    assert len(names) > 1000
    assert [name for name in names if ANY.search((ROOT / name).read_bytes())] == []


@pytest.mark.parametrize(
    "credential",
    [
        f"-----BEGIN OPENSSH PRIVATE {'KEY'}-----\n{'b3Blb' * 10}",
        f"AKIA{'ABCD' * 4}",
        f"token: ghp_{'a1' * 18}",
        f"xoxb-{'1234-' * 5}",
        f"Bearer eyJ{'hbGciOi' * 2}.eyJ{'pc3MiOi' * 2}.{'c2lnbmF0' * 2}",
        f'{{"auth": "{"dXNlcjpw" * 4}"}}',
    ],
)
def test_a_credential_is_found(credential: str) -> None:
    assert ANY.search(credential.encode())
