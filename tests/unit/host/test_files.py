"""Archives are written whole or not at all, and read back only when whole."""

import io
import os
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from margindsl.host import files as archive
from margindsl.host.files import BrokenArchiveError, read_archive, write_archive

HEADER = {"name": "tree", "numbers": [1, 2.5, None]}
ARRAYS = {"u": np.linspace(0, 1, 50).reshape(10, 5), "count": np.array(3), "none": np.zeros((0, 4)),
          "turned": np.arange(6.0).reshape(2, 3).T}


@pytest.fixture
def path(tmp_path):
    write_archive(tmp_path / "a.npz", "state", HEADER, ARRAYS)
    return tmp_path / "a.npz"


def test_what_is_written_is_read(path):
    header, arrays = read_archive(path, "state")
    assert header == HEADER and set(arrays) == set(ARRAYS)
    for name, value in ARRAYS.items():
        assert arrays[name].shape == value.shape and np.array_equal(arrays[name], value)


def test_every_flipped_byte_of_the_contents_is_noticed(path):
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            header, arrays = read_archive(path, "state")
        except BrokenArchiveError:
            continue
        assert header == HEADER  # a byte of the container that says nothing, such as a date
        assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


@pytest.mark.parametrize("length", [0, 10, 500, -1])
def test_files_that_end_early_are_refused(path, length):
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BrokenArchiveError):
        read_archive(path, "state")


def test_another_kind_is_refused_by_name(path):
    with pytest.raises(BrokenArchiveError, match="holds a state, not a proof"):
        read_archive(path, "proof")


def test_nothing_larger_than_the_file_is_allocated(path):
    """A member of a few bytes that claims a petabyte, and one that unpacks to a gigabyte."""
    claim = io.BytesIO()
    np.lib.format.write_array_header_1_0(claim, {"descr": "<f8", "fortran_order": False, "shape": (2**47,)})
    for compression, content in [(zipfile.ZIP_STORED, claim.getvalue()), (zipfile.ZIP_DEFLATED, bytes(2**20))]:
        with zipfile.ZipFile(path, "w", compression) as parts:
            parts.writestr("header.json", '{"kind": "state", "header": {}}')
            parts.writestr("u.npy", content)
        with pytest.raises(BrokenArchiveError):
            read_archive(path, "state")


def test_objects_are_neither_written_nor_read(tmp_path, path):
    with pytest.raises(ValueError, match="allow_pickle"):
        write_archive(tmp_path / "b.npz", "state", {}, {"u": np.array([{}], dtype=object)})
    assert sorted(os.listdir(tmp_path)) == ["a.npz"]


def test_a_full_disk_leaves_the_old_file(path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(archive.np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space"):
        write_archive(path, "state", {}, {"u": np.zeros(2)})
    assert path.read_bytes() == before and os.listdir(path.parent) == ["a.npz"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path, path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(pipe.read_bytes)
        write_archive(pipe, "state", HEADER, ARRAYS)
        (tmp_path / "c.npz").write_bytes(held.result(timeout=60))
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    header, arrays = read_archive(tmp_path / "c.npz", "state")
    assert header == HEADER and set(arrays) == set(ARRAYS)


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    for target in (tmp_path / "none" / "a.npz", tmp_path):
        with pytest.raises(OSError) as caught:
            write_archive(target, "state", {}, {})
        assert caught.value.filename == str(target)
