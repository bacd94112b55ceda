"""Instruction sets are limited where torch's choice would fail; C code is compiled once, and its absence is no error."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from selfnorm._util import isa
from selfnorm._util.native import FLAGS, _digest, compile_library


def machine(monkeypatch: pytest.MonkeyPatch, flags: str, level: str, chosen: str = "") -> dict[str, str]:
    monkeypatch.setattr(isa, "cpuinfo", {"flags": flags, "cpuid level": level}.__getitem__)
    monkeypatch.setattr(os, "environ", {"SELFNORM_ISA": chosen})
    isa.limit()
    return dict(os.environ)


def test_a_machine_that_hides_its_tiles_does_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine(monkeypatch, "avx512f amx_tile", "28")["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_FP16"
    assert "ONEDNN_MAX_CPU_ISA" not in machine(monkeypatch, "avx512f amx_tile", "31")
    assert "ONEDNN_MAX_CPU_ISA" not in machine(monkeypatch, "avx2", "13")
    assert "ONEDNN_MAX_CPU_ISA" not in machine(monkeypatch, "", "")


def test_avx2_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine(monkeypatch, "avx512f amx_tile", "28", "AVX2")["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_kernels_on_tiles_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = " ".join(isa.TILES)
    machine(monkeypatch, flags, "28")
    assert isa.uses_tiles()
    for name, value in (("SELFNORM_AMX", "0"), ("SELFNORM_ISA", "AVX2")):
        monkeypatch.setattr(os, "environ", {name: value})
        assert not isa.uses_tiles()
    machine(monkeypatch, flags.replace("amx_bf16", ""), "28")
    assert not isa.uses_tiles()


def compiler(folder: Path, body: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_flags_that_are_only_wished_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="selfnorm")
    monkeypatch.setenv("SELFNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    source = tmp_path / "code.c"
    source.write_text("int one(void) { return ONE; }")
    library = compile_library(source, wished=[("-DONE=1", "-fno-such-flag"), ("-fno-such-flag",), ("-DONE=1",)])
    assert library is not None and library.one() == 1
    assert caplog.messages == ["code.c was compiled without -fno-such-flag."]
    assert compile_library(source, "-fno-such-flag") is None


def test_without_a_working_compiler_there_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFNORM_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "code.c"
    source.write_text("int one(void) { return 1; }")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compile_library(source) is None
    monkeypatch.setenv("CC", compiler(tmp_path, "exit 1"))
    assert compile_library(source) is None
    monkeypatch.setenv(
        "CC", compiler(tmp_path, 'for last in "$@"; do [ "$before" = -o ] && echo junk > "$last"; before=$last; done')
    )
    assert compile_library(source) is None  # it wrote something that is no library


def test_a_library_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    monkeypatch.setenv("SELFNORM_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "code.c"
    source.write_text("int one(void) { return 1; }")
    first = compile_library(source)
    assert first is not None and first.one() == 1
    with monkeypatch.context() as patch:
        patch.setenv("SELFNORM_NATIVE", "0")
        assert compile_library(source) is None
    (made,) = (tmp_path / "cache" / "native").iterdir()
    before = made.stat().st_mtime_ns
    assert compile_library(source) is not None and made.stat().st_mtime_ns == before
    source.write_text("int one(void) { return 2; }")
    second = compile_library(source)
    assert second is not None and second.one() == 2


def test_a_broken_library_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    monkeypatch.setenv("SELFNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", "cc -DONE=3")  # a command with arguments
    source = tmp_path / "code.c"
    source.write_text("int one(void) { return ONE; }")
    name = _digest(source, str(shutil.which("cc")), [str(shutil.which("cc")), "-DONE=3", *FLAGS])
    broken = tmp_path / "cache" / "native" / f"code-{name}.so"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"not a library")
    found = compile_library(source)
    assert found is not None and found.one() == 3
    assert list(broken.parent.iterdir()) == [broken]
