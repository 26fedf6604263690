def test_table_counts_pairs_and_tokens_of_both_languages(folder, capsys):
    folder(max_item_tokens=2, overlength="truncate")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("de-en, 10 and 10 symbols")
    heads, train = " ".join(lines[1].split()), lines[2].split()
    assert heads.startswith("split pairs tokens de tokens en unknown de") and "over 2" in heads
    assert train[:4] == ["train", "12", "24", "24"] and train[-2:] == ["4", "8"]
    assert "train: 4 pairs too long, truncated" in lines
