import json


def test_table_has_percentages_and_json_has_counts(folder, capsys, tmp_path):
    folder(json=str(tmp_path / "counts.jsonl"))
    lines = capsys.readouterr().out.splitlines()
    assert "6 known words, 5 tags" in lines[0]
    assert lines[3].split() == ["valid", "1", "2", "7", "14.29%", "14.29%", "0"]
    events = [json.loads(line) for line in (tmp_path / "counts.jsonl").read_text().splitlines()]
    assert [e["oov"] for e in events if e["event"] == "split"] == [0, 1, 0]
    assert events[-1]["known_words"] == 6
