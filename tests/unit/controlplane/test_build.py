"""The directories of the binaries: a new pin of an exporter or of kind does not build the control plane again."""

import shutil
from pathlib import Path

import pytest

from controlplane import build


@pytest.fixture(autouse=True)
def no_directory_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(build.ASSETS_VARIABLE, raising=False)
    monkeypatch.delenv(build.CACHE_VARIABLE, raising=False)


@pytest.mark.parametrize("name", ["EXPORTERS", "KIND"])
def test_exporters_and_kind_are_kept_apart(tmp_path: Path, name: str) -> None:
    modules = getattr(build, name)
    before = build.directory(), build.directory(modules)
    assert before[0] != before[1]
    changed = tuple(Path(shutil.copytree(module, tmp_path / module.name)) for module in modules)
    (changed[0] / "go.sum").write_text("another pin", encoding="utf-8")
    assert build.directory() == before[0]
    assert build.directory(changed) != before[1]


def test_their_tools_have_the_names_of_the_programs() -> None:
    assert [tool.binary for tool in build.tools(build.EXPORTERS)] == ["kube-state-metrics"]
    assert [tool.binary for tool in build.tools(build.KIND)] == ["kind"]
    assert {"kube-state-metrics", "kind"}.isdisjoint(tool.binary for tool in build.tools())


def test_a_chosen_directory_has_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    assert (build.directory(), build.directory(build.EXPORTERS)) == (tmp_path, tmp_path / "kube-state-metrics")


def test_assets_without_an_exporter_are_an_error_only_if_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("kube-apiserver", "etcd"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv(build.ASSETS_VARIABLE, str(tmp_path))
    assert build.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path)
    with pytest.raises(build.BuildError, match="no executable kube-state-metrics"):
        build.ensure(modules=build.EXPORTERS)
