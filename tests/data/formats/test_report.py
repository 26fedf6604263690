from tests.helpers.preprocessing import preprocess_config
from toolkit.data.formats.format import Format, SplitReport, print_report
from toolkit.reporting.console import Output


class Remarking(Format):
    """A format that reports without reading."""

    unit = "tokens"
    read_split = columns = encode = None

    def remarks(self):
        return ["a remark"]


def test_report_to_a_pipe_is_aligned_lines(capsys, tokenizer):
    config = preprocess_config(trainpref="x", destdir="data[red]")
    row = {"items": 80, "tokens": "2,000"}
    splits = {
        "train": SplitReport({}, row, 2000, ["train: 1 item too long, left out"]),
        "valid": SplitReport({}, row, 2000),
    }
    with Output(None) as output:
        print_report(Remarking(config.format.config, config), tokenizer, splits, 2.0, 2, output)
    assert capsys.readouterr().out.splitlines() == [
        f"data[red]: {len(tokenizer.vocabulary)} symbols",
        "split  items  tokens",
        "train     80   2,000",
        "valid     80   2,000",
        "train: 1 item too long, left out",
        "a remark",
        "4,000 tokens in 2.0 s with 2 workers: 2,000 tokens/s",
    ]
