"""Readers of text: what a publisher wrote comes out unchanged, and every fault is one line with its place."""

import math
from pathlib import Path

import pytest

from components.errors import ConfigError, DataError
from tests.datasets.texts import read, rows_of, tar_bytes, text_entry, write_parquet, zip_bytes

CSV = 'source,text,label\nimdb,"Good, with a\nline break and ""quotes""",1\nrt,short,0\nimdb,bad,0\n'
CSV_OPTIONS = {"ignored": [], "only": {"column": "source", "value": "imdb"}}


def test_csv_rows_keep_their_line_breaks_and_quotes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV, encoding="utf-8")
    source = read(text_entry("text-csv", {"a.csv": "train"}, **CSV_OPTIONS), tmp_path)
    rows = rows_of(source)
    assert [(row.text, row.label) for row in rows] == [('Good, with a\nline break and "quotes"', 1), ("bad", 0)]
    assert [row.id for row in rows] == ["train-1", "train-3"]
    assert source.classes == ("no", "yes")
    assert not source.pairs


CSV_FAULTS = [
    (b"", "an empty file"),
    (b"<!doctype html><title>Sign in</title>", "an HTML page titled 'Sign in'"),
    (b"source,text\nimdb,a\n", r"header: got no column 'label' \(it has source, text\)"),
    (b"source,text,label,extra\nimdb,a,1,x\n", "an unknown column 'extra'"),
    (b"source,text,label,label\nimdb,a,1,1\n", "column 'label' twice"),
    (b"source,text,label\nimdb,a,1\nimdb,b\n", "row 2: got 2 fields, allowed is 3"),
    (b"source,text,label\nimdb,a,2\n", "row 1, column label: got label '2', allowed is one of 0, 1"),
    (b"source,text,label\nimdb,a,\n", "label ''"),
    (b"source,text,label\nimdb,na\xefve,1\n", "line 2, byte 8: got byte 0xef, allowed is utf-8 text"),
    (b"source,text,label\nimdb,a\0b,1\n", "line 2, byte 7: got a NUL byte"),
    (b"source,text,label\nimdb,  ,1\n", "row 1: got an empty text"),
    (b'source,text,label\nimdb,"a,1\n', "text that is not CSV"),
    (b"source,text,label\nrt,a,1\n", "no rows"),
]


@pytest.mark.parametrize(("content", "told"), CSV_FAULTS, ids=[told[:24] for _, told in CSV_FAULTS])
def test_csv_faults(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match=told) as caught:
        rows_of(read(text_entry("text-csv", {"a.csv": "train"}, **CSV_OPTIONS), tmp_path))
    assert "\n" not in str(caught.value)
    assert "a.csv" in str(caught.value)


def test_parquet_pairs_with_publishers_identifiers(tmp_path: Path) -> None:
    columns = {"one": ["a", "b"], "two": ["c", "d"], "label": [1, 0], "idx": [7, 3]}
    write_parquet(tmp_path / "train.parquet", columns)
    write_parquet(tmp_path / "hidden.parquet", columns)
    paths = {"train.parquet": "train", "hidden.parquet": "unlabelled"}
    source = read(text_entry("text-parquet", paths, text="one", second="two", id="idx"), tmp_path)
    assert list(source.parts) == ["train"]
    assert [(row.id, row.text, row.second, row.label) for row in rows_of(source)] == [
        ("train-7", "a", "c", 1),
        ("train-3", "b", "d", 0),
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"label": [1, 2]}, "row 2, column label: got label '2'"),
        ({"idx": [7, 7]}, "row 2: got identifier 'train-7' again"),
        ({"one": ["a", "\0"]}, "row 2: got a NUL byte"),
        ({"one": ["a", " "]}, "row 2: got an empty text"),
        ({"more": [1, 2]}, "an unknown column 'more'"),
    ],
    ids=["label", "identifier", "NUL", "empty", "column"],
)
def test_parquet_faults(tmp_path: Path, change: dict[str, object], told: str) -> None:
    columns = {"one": ["a", "b"], "label": [1, 0], "idx": [7, 3], **change}
    write_parquet(tmp_path / "a.parquet", columns)
    with pytest.raises(DataError, match=told):
        rows_of(read(text_entry("text-parquet", {"a.parquet": "train"}, text="one", id="idx"), tmp_path))


def test_a_file_without_a_split_is_a_fault_of_the_catalogue(tmp_path: Path) -> None:
    for reader in ("text-parquet", "text-csv", "text-lines"):
        with pytest.raises(ConfigError, match=r"some-text in data/catalogue.yaml needs `split` for each file"):
            read(text_entry(reader, {"a": None}), tmp_path)


def test_lines_have_a_label_a_tab_and_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"yes\tfine\tindeed\r\nno\tbad")
    entry = text_entry("text-lines", {"a.txt": "train"}, written=["no", "yes"])
    assert [(row.text, row.label) for row in rows_of(read(entry, tmp_path))] == [("fine\tindeed", 1), ("bad", 0)]
    (tmp_path / "a.txt").write_bytes(b"yes\tfine\nno text\n")
    with pytest.raises(DataError, match="line 2: got no tab"):
        rows_of(read(entry, tmp_path))


REVIEWS = {
    "aclImdb/train/pos/0_9.txt": b"good <br /> film",
    "aclImdb/train/neg/0_2.txt": "dull é".encode(),
    "aclImdb/train/unsup/0_0.txt": b"unlabelled",
    "aclImdb/test/neg/5_1.txt": b"bad",
    "aclImdb/README": b"read me",
}


def imdb(tmp_path: Path, changes: dict[str, bytes] | None = None):  # type: ignore[no-untyped-def]
    (tmp_path / "imdb.tar.gz").write_bytes(tar_bytes({**REVIEWS, **(changes or {})}))
    return read(text_entry("imdb-archive", {"imdb.tar.gz": None}, classes=["neg", "pos"]), tmp_path)


def test_imdb_members_are_rows(tmp_path: Path) -> None:
    source = imdb(tmp_path)
    assert {(row.id, row.text, row.label) for row in rows_of(source)} == {
        ("train-pos-0", "good <br /> film", 1),
        ("train-neg-0", "dull é", 0),
    }
    assert [row.id for row in rows_of(source, "test")] == ["test-neg-5"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"aclImdb/train/pos/1_3.txt": b"x"}, r"member aclImdb/train/pos/1_3.txt: got score 3 among pos"),
        ({"aclImdb/train/pos/1_8.txt": b"na\xefve"}, "byte 0xef, allowed is utf-8 text"),
        ({"aclImdb/train/pos/1_8.txt": b"a\0b"}, "a NUL byte"),
        ({"aclImdb/train/pos/1_8.txt": b""}, "an empty text"),
        ({"../out.txt": b"x"}, "a path that leaves its folder"),
    ],
    ids=["score", "latin-1", "NUL", "empty", "path"],
)
def test_imdb_faults(tmp_path: Path, changes: dict[str, bytes], told: str) -> None:
    with pytest.raises(DataError, match=told):
        rows_of(imdb(tmp_path, changes))


PAIR = b"index\tsentence1\tsentence2\t"
INFERENCE = ["entailment", "neutral", "contradiction"]
GLUE: dict[str, tuple[list[str] | None, dict[str, bytes]]] = {
    "cola": (
        ["unacceptable", "acceptable"],
        {"CoLA/train.tsv": b'gj04\t1\t\tA "quoted one\nrhl07\t0\t*\tB\n', "CoLA/dev.tsv": b"x\t1\t\tC\n"},
    ),
    "sst2": (
        ["no", "yes"],
        {"SST-2/train.tsv": b"sentence\tlabel\nA \t0\n", "SST-2/dev.tsv": b"sentence\tlabel\nB\t1\n"},
    ),
    "stsb": (
        None,
        {"STS-B/train.tsv": PAIR + b"score\n0\tA\tB\t3.25\n", "STS-B/dev.tsv": PAIR + b"score\n0\tA\tB\t0\n"},
    ),
    "mnli": (
        INFERENCE,
        {
            "MNLI/train.tsv": PAIR + b"label1\tgold_label\n0\tA\tB\tneutral\tentailment\n",
            "MNLI/dev_matched.tsv": PAIR + b"gold_label\n0\tA\tB\tcontradiction\n",
            "MNLI/dev_mismatched.tsv": PAIR + b"gold_label\n0\tC\tD\tneutral\n",
        },
    ),
    "rte": (
        ["entailment", "not_entailment"],
        {
            "RTE/train.tsv": PAIR + b"label\n0\tA\tB\tnot_entailment\n",
            "RTE/dev.tsv": PAIR + b"label\n0\tA\tB\tentailment\n",
        },
    ),
}
WORDS = {"mnli": GLUE["mnli"][0], "rte": GLUE["rte"][0]}


def glue(tmp_path: Path, task: str, changes: dict[str, bytes] | None = None):  # type: ignore[no-untyped-def]
    classes, files = GLUE[task.removesuffix("-mismatched")]
    (tmp_path / "glue.zip").write_bytes(zip_bytes({**files, **(changes or {})}))
    entry = text_entry("glue-archive", {"glue.zip": None}, task=task, classes=classes, written=WORDS.get(task[:4]))
    return read(entry, tmp_path)


@pytest.mark.parametrize(
    ("task", "train", "validation"),
    [
        ("cola", [('A "quoted one', None, 1), ("B", None, 0)], [("C", None, 1)]),
        ("sst2", [("A ", None, 0)], [("B", None, 1)]),
        ("stsb", [("A", "B", 3.25)], [("A", "B", 0.0)]),
        ("mnli", [("A", "B", 0)], [("A", "B", 2)]),
        ("mnli-mismatched", [("A", "B", 0)], [("C", "D", 1)]),
        ("rte", [("A", "B", 1)], [("A", "B", 0)]),
    ],
)
def test_glue_tasks_in_their_different_forms(tmp_path: Path, task: str, train: list, validation: list) -> None:
    source = glue(tmp_path, task)
    for split, expected in (("train", train), ("validation", validation)):
        assert [(row.text, row.second, row.label) for row in rows_of(source, split)] == expected
    assert (source.classes is None) == (task == "stsb")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"RTE/dev.tsv": PAIR + b"label\n0\tA\tB\n"},
            "line 2: got 3 fields, allowed is 4 fields",
        ),
        ({"RTE/dev.tsv": b"index\tsentence1\tlabel\n0\tA\tentailment\n"}, "no column 'sentence2'"),
        (
            {"RTE/dev.tsv": PAIR + b"label\n0\tA\tB\tmaybe\n"},
            "label 'maybe', allowed is one of enta",
        ),
        ({"RTE/dev.tsv": PAIR + b"label\n"}, "no rows"),
        (
            {"RTE/dev.tsv": PAIR + b"label\n0\t\xe9\tB\tentailment\n"},
            "member RTE/dev.tsv, line 2",
        ),
    ],
    ids=["ragged", "column", "label", "empty", "latin-1"],
)
def test_glue_faults(tmp_path: Path, changes: dict[str, bytes], told: str) -> None:
    with pytest.raises(DataError, match=told):
        rows_of(glue(tmp_path, "rte", changes), "validation")


def test_glue_archives_of_another_task_are_refused(tmp_path: Path) -> None:
    (tmp_path / "glue.zip").write_bytes(zip_bytes(GLUE["sst2"][1]))
    entry = text_entry("glue-archive", {"glue.zip": None}, task="rte", written=["a", "b"])
    with pytest.raises(DataError, match=r"no member RTE/train.tsv \(it has SST-2/train.tsv, SST-2/dev.tsv\)"):
        read(entry, tmp_path)
    with pytest.raises(ConfigError, match="task is 'ax', allowed is one of cola, sst2"):
        read(text_entry("glue-archive", {"glue.zip": None}, task="ax"), tmp_path)


def test_a_target_of_a_regression_must_be_finite(tmp_path: Path) -> None:
    for score in (b"nan", b"inf", b"high", b""):
        changed = {"STS-B/dev.tsv": PAIR + b"score\n0\tA\tB\t" + score + b"\n"}
        with pytest.raises(DataError, match="allowed is a finite number"):
            rows_of(glue(tmp_path, "stsb", changed), "validation")
    assert math.isfinite(rows_of(glue(tmp_path, "stsb"))[0].label)


MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


def test_mrpc_takes_its_development_pairs_out_of_train(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("\ufeff" + MRPC + '1\t10\t11\tA "x\tB\n0\t12\t13\tC\tD\n', encoding="utf-8")
    (tmp_path / "test.txt").write_text(MRPC + "1\t20\t21\tE\tF\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("12\t13\n", encoding="utf-8")
    entry = text_entry("mrpc-tables", {"train.txt": None, "test.txt": None, "dev.tsv": None})
    source = read(entry, tmp_path)
    found = {split: [(row.text, row.second, row.label) for row in rows_of(source, split)] for split in source.parts}
    assert found == {"train": [('A "x', "B", 1)], "validation": [("C", "D", 0)], "test": [("E", "F", 1)]}
    (tmp_path / "test.txt").write_text(MRPC + "1\t20\t21\tE\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"test.txt, line 2: got 4 fields, allowed is 5 fields"):
        rows_of(source, "test")


@pytest.mark.parametrize("line", ["12\t14", "13\t12", "12", ""], ids=["unknown", "reversed", "one", "blank"])
def test_mrpc_development_pairs_must_be_in_train(tmp_path: Path, line: str) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.txt").write_text(MRPC + "0\t12\t13\tC\tD\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text(f"12\t13\n{line}\n", encoding="utf-8")
    told = r"dev.tsv, line 2: got .*, allowed is two identifiers of a pair in train.txt"
    with pytest.raises(DataError, match=told):
        read(text_entry("mrpc-tables", {"train.txt": None, "test.txt": None, "dev.tsv": None}), tmp_path)
