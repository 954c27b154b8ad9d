"""What is removed from the packages of the image."""

from pathlib import Path

from image.prune import prune

KEPT = {
    "rich/console.py",
    "rich-15.0.0.dist-info/METADATA",
    "rich-15.0.0.dist-info/licenses/LICENSE",
    "numpy/testing/__init__.py",
    "numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so",
    "kubernetes/client/models/__init__.py",
    "kubernetes/config/kube_config.py",
    "scheduler/testing/builders.py",
}
REMOVED = {
    "rich/__pycache__/console.cpython-312.pyc",
    "rich-15.0.0.dist-info/RECORD",
    "numpy/_core/tests/test_umath.py",
    "numpy/_core/_umath_tests.cpython-312-x86_64-linux-gnu.so",
    "numpy/_core/include/numpy/arrayobject.h",
    "numpy/__init__.pyi",
    "kubernetes/client/models/v1_pod.py",
    "kubernetes/client/api/core_v1_api.py",
    "kubernetes/config/kube_config_test.py",
    "kubernetes/aio/__init__.py",
    "cel_expr_python/ext/ext_math.cpython-312-x86_64-linux-gnu.so",
    "pygments/lexer.py",
    "Pygments-2.21.0.dist-info/METADATA",
}


def test_tests_headers_stubs_unused_packages_and_unused_api_groups_are_removed(tmp_path: Path) -> None:
    for name in KEPT | REMOVED:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Name: rich\n" if path.name == "METADATA" else "", encoding="utf-8")
    (tmp_path / "Pygments-2.21.0.dist-info/METADATA").write_text("Name: Pygments\nVersion: 2.21.0\n", encoding="utf-8")
    record = "Pygments-2.21.0.dist-info/METADATA,,\npygments/lexer.py,,\n../../../bin/pygmentize,,\n"
    (tmp_path / "Pygments-2.21.0.dist-info/RECORD").write_text(record, encoding="utf-8")

    prune(tmp_path)

    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == KEPT
