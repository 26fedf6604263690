from toolkit.data.preprocessing.report import print_summary
from toolkit.reporting.json_output import Output


def test_the_summary_of_a_pipe_is_aligned_lines(capsys):
    counts = {"unknown": 5, "overlength": 1, "lost_tokens": 3, "empty": 0}
    part = {"documents": 2, "items": 40, "elements": 1000}
    split = {**counts, "columns": {"tokens": {"parts": [part, part]}}}
    meta = {
        "settings": {"max_item_tokens": 64, "overlength": "skip"},
        "vocabulary": {"symbols": 8004},
        "splits": {"train": split, "valid": {**split, "overlength": 0, "lost_tokens": 0}},
    }
    with Output(None) as output:
        print_summary("data[red]", meta, 2.0, 2, output)
    assert capsys.readouterr().out.splitlines() == [
        "data[red]: 8,004 symbols",
        "split  documents  items  tokens  unknown  over 64  tokens lost  parts",
        "train          4     80   2,000   0.250%        1            3      2",
        "valid          4     80   2,000   0.250%        0            0      2",
        "train: 1 item too long, left out",
        "binarized 4,000 tokens in 2.0 s with 2 workers: 2,000 tokens/s",
    ]
