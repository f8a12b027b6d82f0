"""CIFAR in its official layouts: found, read, checked; damage is named."""

import gzip
import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cifar_files import as_python_2_wrote_it, batch, batches, write_archive, write_folder
from fedteddi.errors import InputError
from fedteddi.learning.datasets import cifar
from fedteddi.learning.datasets.catalogue import CIFAR, Cifar, find_cifar
from fedteddi.learning.datasets.dataset import Dataset, load_dataset
from fedteddi.learning.datasets.plain_pickle import read_plain_pickle

BOTH = pytest.mark.parametrize("which", CIFAR.values(), ids=CIFAR)
TEN = CIFAR["cifar10"]


@pytest.fixture(autouse=True)
def nothing_found_by_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDTEDDI_DATA", raising=False)
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def assert_right(which: Cifar, data: Dataset) -> None:
    """All images, in the order of the official files; the number of classes is the data set's, not the labels'."""
    expected = batches(which)
    images = np.concatenate([expected[file]["data"] for file in which.train])
    assert data.name == which.name
    assert data.num_classes == which.num_classes
    assert data.image_shape == (3, 32, 32)
    assert np.array_equal(data.train_images.numpy(), images.reshape(-1, 3, 32, 32))
    labels = [label for file in which.train for label in expected[file][which.labels]]
    assert data.train_labels.tolist() == labels
    assert data.test_labels.tolist() == expected[which.test[0]][which.labels]
    assert np.array_equal(data.test_images.numpy().reshape(-1, 3072), expected[which.test[0]]["data"])


# --- reading


@BOTH
@pytest.mark.parametrize("as_bytes", [False, True], ids=["str", "bytes"])
@pytest.mark.parametrize("protocol", [0, 2, 3, 4])
def test_a_folder_is_read_whatever_wrote_it(
    which: Cifar, protocol: int, as_bytes: bool, tmp_path: Path
) -> None:
    write_folder(which, tmp_path, protocol, as_bytes)
    assert_right(which, load_dataset(which.name, tmp_path))


@BOTH
@pytest.mark.parametrize("prefix", ["", "./"])
def test_an_archive_is_read_without_unpacking_it(which: Cifar, prefix: str, tmp_path: Path) -> None:
    archive = write_archive(which, tmp_path, prefix)
    assert_right(which, load_dataset(which.name, tmp_path))
    assert list(tmp_path.iterdir()) == [archive]


@BOTH
def test_the_official_files_were_written_by_python_2(which: Cifar, tmp_path: Path) -> None:
    folder = write_folder(which, tmp_path)
    for file, content in batches(which).items():
        (folder / file).write_bytes(as_python_2_wrote_it(content, which.labels))
    assert_right(which, load_dataset(which.name, tmp_path))


def test_arrays_written_before_and_since_numpy_2_are_read() -> None:
    content = pickle.dumps(batch(TEN, 0), protocol=2)
    old = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    new = old.replace(b"numpy.core.multiarray", b"numpy._core.multiarray")
    for form in (old, new):
        assert np.array_equal(read_plain_pickle(form)["data"], batch(TEN, 0)["data"])


def test_labels_may_be_an_array_and_images_in_any_order_of_memory() -> None:
    images = np.asfortranarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    for labels in (np.array([3, 1, 2], dtype=">i4"), np.array([3, 1, 2], dtype=np.int64)):
        held = read_plain_pickle(pickle.dumps({"data": images, "labels": labels}, protocol=2))
        assert held["labels"].tolist() == [3, 1, 2]
        assert np.array_equal(held["data"], images)


def test_a_copy_with_half_of_the_classes_still_has_a_hundred(tmp_path: Path) -> None:
    which = CIFAR["cifar100"]
    write_folder(which, tmp_path)
    data = load_dataset("cifar100", tmp_path)
    assert int(data.train_labels.max()) < 50
    assert data.num_classes == 100


def test_more_labels_than_classes_are_refused() -> None:
    images, labels = np.zeros((2, 4, 4), dtype=np.uint8), np.array([0, 7])
    assert Dataset.from_arrays("mine", images, labels, images, labels).num_classes == 8
    assert Dataset.from_arrays("mine", images, labels, images, labels, num_classes=9).num_classes == 9
    with pytest.raises(InputError, match="num_classes=7, but the data set mine has the label 7"):
        Dataset.from_arrays("mine", images, labels, images, labels, num_classes=7)


def test_mean_and_deviation_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted piece by piece; the oracle holds all pixels as floats."""
    monkeypatch.setattr("fedteddi.learning.datasets.arrays.PIECE_IMAGES", 7)
    images = np.random.default_rng(3).integers(0, 200, size=(30, 3, 5, 6), dtype=np.uint8)
    data = Dataset.from_arrays("mine", images, np.arange(30), images, np.arange(30))
    pixels = images.astype(np.float64)
    np.testing.assert_allclose(data.mean.ravel(), pixels.mean(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(data.std.ravel(), pixels.std(axis=(0, 2, 3)), rtol=1e-6)


# --- finding


@BOTH
def test_the_folder_its_parent_or_the_archive_may_be_named(which: Cifar, tmp_path: Path) -> None:
    archive = write_archive(which, tmp_path / "packed")
    folder = write_folder(which, tmp_path / "plain")
    renamed = folder.rename(tmp_path / "renamed")
    folder = write_folder(which, tmp_path / "again")
    for given in (archive, archive.parent, folder, folder.parent, renamed, str(folder)):
        assert_right(which, load_dataset(which.name, given))


def test_the_given_folder_comes_before_the_variable_and_that_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {name: tmp_path / name for name in ("given", "variable", "cache/data")}
    found = {name: write_folder(TEN, place) for name, place in places.items()}
    assert find_cifar(TEN) == found["cache/data"]
    monkeypatch.setenv("FEDTEDDI_DATA", str(places["variable"]))
    assert find_cifar(TEN) == found["variable"]
    assert find_cifar(TEN, places["given"]) == found["given"]


def test_a_whole_archive_is_preferred_to_half_a_folder(tmp_path: Path) -> None:
    folder = write_folder(TEN, tmp_path)
    archive = write_archive(TEN, tmp_path)
    assert find_cifar(TEN, tmp_path) == folder
    (folder / "data_batch_3").unlink()
    assert find_cifar(TEN, tmp_path) == archive


@BOTH
def test_a_missing_data_set_says_where_it_was_looked_for(which: Cifar, tmp_path: Path) -> None:
    with pytest.raises(InputError) as given:
        load_dataset(which.name, tmp_path)
    for words in (str(tmp_path), which.folder, which.archive, "--data-dir", "FEDTEDDI_DATA"):
        assert words in str(given.value)
    assert f"'fedteddi data get {which.name} --data-dir {tmp_path}'" in str(given.value)
    with pytest.raises(InputError) as default:
        load_dataset(which.name)
    assert str(tmp_path / "cache" / "data") in str(default.value)
    assert f"'fedteddi data get {which.name}'" in str(default.value)


def test_an_unknown_name_lists_all() -> None:
    with pytest.raises(InputError, match="did you mean 'cifar10'") as unknown:
        load_dataset("cifar-10")
    assert "known are fashion-mnist, cifar10, cifar100, or give an .npz file" in str(unknown.value)


# --- damage


def damaged(change: Callable[[dict[Any, Any]], object]) -> bytes:
    content = batch(TEN, 2)
    change(content)
    return pickle.dumps(content, protocol=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no file of cifar10"),
        (b"<html>not found</html>", "is no file of cifar10"),
        (pickle.dumps(batch(TEN, 2), protocol=2)[:5000], "is no file of cifar10"),
        (pickle.dumps([1, 2], protocol=2), "a list instead of a dictionary"),
        (pickle.dumps({3: 4}, protocol=2), "a int where text should be"),
        (pickle.dumps(batch(TEN, 2), protocol=5), "protocol 4 or lower"),
        (damaged(lambda b: b.pop("data")), "lacks 'data'"),
        (damaged(lambda b: b.pop("labels")), "lacks 'labels'"),
        (damaged(lambda b: b.update(data=b["data"][:, :3000])), r"data is uint8 \[4, 3000\]"),
        (damaged(lambda b: b.update(data=b["data"].reshape(-1))), r"data is uint8 \[12288\]"),
        (damaged(lambda b: b.update(data=b["data"].astype(np.int16))), r"data is int16 \[4, 3072\]"),
        (damaged(lambda b: b.update(data=b["data"].astype(float))), "an array of 'f8'"),
        (damaged(lambda b: b.update(data=[[1, 2]])), "data is a list"),
        (damaged(lambda b: b.update(labels=[0, 1, 2])), "4 images and 3 labels"),
        (damaged(lambda b: b.update(labels=[0, 1, 2, 10])), "labels has 10: give class numbers from 0 to 9"),
        (damaged(lambda b: b.update(labels=[0, 1, 2, -1])), "labels has -1"),
        (damaged(lambda b: b.update(labels=[0, 1, 2, True])), "labels has a bool"),
        (damaged(lambda b: b.update(labels=[0, 1, 2, 10**9999])), "labels has a int"),
        (damaged(lambda b: b.update(labels="0123")), "labels is a str"),
    ],
)
def test_damage_is_named_with_the_file(content: bytes, message: str, tmp_path: Path) -> None:
    folder = write_folder(TEN, tmp_path / "folder")
    (folder / "data_batch_3").write_bytes(content)
    archive = write_archive(TEN, tmp_path / "archive", data_batch_3=content)
    for place in (folder, archive):
        with pytest.raises(InputError, match=message) as refused:
            load_dataset("cifar10", place)
        assert f"{place}: data_batch_3" in str(refused.value)


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    folder = write_folder(TEN, tmp_path)
    (folder / "data_batch_4").unlink()
    with pytest.raises(InputError, match="lacks data_batch_4: complete the folder, or delete it"):
        load_dataset("cifar10", tmp_path)
    with tarfile.open(tmp_path / TEN.archive, "w:gz") as archive:
        archive.add(folder, TEN.folder)
    with pytest.raises(InputError, match="lacks data_batch_4: get it anew with 'fedteddi data get cifar10'"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize("kept", [0, 10, 0.5, -4])
def test_a_truncated_archive_is_refused(kept: float, tmp_path: Path) -> None:
    archive = write_archive(TEN, tmp_path)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * kept) if isinstance(kept, float) else kept])
    with pytest.raises(InputError, match=r"get it anew with 'fedteddi data get cifar10'"):
        load_dataset("cifar10", tmp_path)


def test_a_flipped_bit_at_the_end_of_an_archive_is_seen(tmp_path: Path) -> None:
    archive = write_archive(TEN, tmp_path)
    whole = bytearray(archive.read_bytes())
    whole[-8] ^= 1  # in gzip's checksum
    archive.write_bytes(whole)
    with pytest.raises(InputError, match="is damaged"):
        load_dataset("cifar10", tmp_path)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / TEN.archive).write_bytes(b"<html>moved</html>" * 99)
    with pytest.raises(InputError, match="is damaged"):
        load_dataset("cifar10", tmp_path)
    (tmp_path / TEN.archive).write_bytes(gzip.compress(b"no tar at all" * 99))
    with pytest.raises(InputError, match="is damaged"):
        load_dataset("cifar10", tmp_path)


def test_members_are_taken_by_name_and_only_if_they_are_files(tmp_path: Path) -> None:
    """Members that point elsewhere are not followed, and others are not written anywhere."""
    secret = tmp_path / "secret"
    secret.write_bytes(pickle.dumps(batch(TEN, 0), protocol=2))
    with tarfile.open(tmp_path / TEN.archive, "w:gz") as archive:
        for name in ("../escaped", "/tmp/escaped-from-an-archive", f"{TEN.folder}/../../escaped"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"bad"))
        link = tarfile.TarInfo(f"{TEN.folder}/data_batch_1")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
    with pytest.raises(InputError, match="data_batch_1 is no plain file"):
        load_dataset("cifar10", tmp_path)
    assert not (tmp_path.parent / "escaped").exists()
    assert not Path("/tmp/escaped-from-an-archive").exists()


def test_a_file_too_large_to_be_cifar_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "MAX_FILE_BYTES", 5000)
    for place in (write_folder(TEN, tmp_path), write_archive(TEN, tmp_path)):
        with pytest.raises(InputError, match="is larger than"):
            load_dataset("cifar10", place)
