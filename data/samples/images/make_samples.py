"""Make the Fashion-MNIST sample again from Debian's package, byte for byte; `--check` only compares.

    apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb unpacked
    python data/samples/images/make_samples.py unpacked/usr/share/datasets/fashion-mnist
"""

import argparse
import gzip
import sys
from pathlib import Path

import numpy as np

from components.datasets.core.sampling import smallest_hashes
from components.datasets.images.idx import read_array

HERE = Path(__file__).parent
# rows of each class
ROWS = {"train": 600, "t10k": 100}


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.asarray(array.shape, dtype=">i4").tobytes()
    return gzip.compress(header + array.tobytes(), compresslevel=9, mtime=0)


def sample(folder: Path, part: str, rows: int) -> dict[str, bytes]:
    images = read_array(folder / f"{part}-images-idx3-ubyte.gz", 3)
    labels = read_array(folder / f"{part}-labels-idx1-ubyte.gz", 1)
    chosen = []
    for label in range(10):
        of_class = np.flatnonzero(labels == label)
        chosen.append(of_class[smallest_hashes([images[row].tobytes() for row in of_class], rows)])
    kept = np.sort(np.concatenate(chosen))
    return {
        f"fashion-mnist-sample-{part}-images-idx3-ubyte.gz": idx(images[kept]),
        f"fashion-mnist-sample-{part}-labels-idx1-ubyte.gz": idx(labels[kept]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the package's four files")
    parser.add_argument("--check", action="store_true", help="write nothing, compare with what is here")
    arguments = parser.parse_args()
    made = {name: content for part, rows in ROWS.items() for name, content in sample(arguments.folder, part, rows).items()}
    differing = [name for name, content in made.items() if not _equal(HERE / name, content)]
    if not arguments.check:
        for name, content in made.items():
            (HERE / name).write_bytes(content)
    print("equal" if not differing else f"differs: {', '.join(differing)}")
    return 1 if arguments.check and differing else 0


def _equal(path: Path, content: bytes) -> bool:
    # compression may differ between versions of zlib; what is inside counts
    return path.is_file() and gzip.decompress(path.read_bytes()) == gzip.decompress(content)


if __name__ == "__main__":
    sys.exit(main())
