"""Make the Fashion-MNIST subset that the package ships.

    apt-get install dataset-fashion-mnist
    python scripts/embed_fashion_mnist.py

Takes the first 800 training and the first 200 test images of every class, in the official order, and writes them as
uint8 arrays. Running it again gives the same pixels; `tests/learning/test_learning.py` holds their checksum.
"""

import argparse
import gzip
from pathlib import Path

import numpy as np

SOURCE = Path("/usr/share/datasets/fashion-mnist")
TARGET = Path(__file__).parents[1] / "src/fedteddi/learning/datasets/embedded/fashion_mnist.npz"
PER_CLASS = {"train": 800, "test": 200}
FILES = {"train": "train", "test": "t10k"}


def read_idx(path: Path) -> np.ndarray:
    """Read an IDX file of bytes: two zero bytes, type 8, number of dimensions, the dimensions, the data."""
    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\x00\x00\x08":
        raise SystemExit(f"{path} is not an IDX file of bytes")
    shape = np.frombuffer(content, dtype=">u4", count=content[3], offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def main() -> None:
    """Write the subset."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--source", type=Path, default=SOURCE, help="folder with the four IDX files")
    source = parser.parse_args().source
    arrays = {}
    for split, per_class in PER_CLASS.items():
        images = read_idx(source / f"{FILES[split]}-images-idx3-ubyte.gz")
        labels = read_idx(source / f"{FILES[split]}-labels-idx1-ubyte.gz")
        kept = np.sort(np.concatenate([np.flatnonzero(labels == c)[:per_class] for c in range(10)]))
        arrays[f"{split}_images"], arrays[f"{split}_labels"] = images[kept], labels[kept]
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(TARGET, **arrays)
    print(f"{TARGET}: {TARGET.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
