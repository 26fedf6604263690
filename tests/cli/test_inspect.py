from tests.data.fairseq_files import write_folder
from toolkit.cli.inspect import main


def test_data_is_shown_as_facts_a_table_and_items(data, capsys):
    assert main([str(data), "--examples", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(data) and lines[1].split() == ["kind", "text"]
    assert any(line.split()[:1] == ["train"] for line in lines)
    assert lines[-1].startswith("  valid 0")


def test_a_checkpoint_and_shards_are_shown_one_below_the_other(finished, tmp_path, capsys):
    folder = write_folder(tmp_path / "fs", ["the"], {"train": ["the the"]})
    assert main([f"{folder}:{folder}", str(finished)]) == 0
    out = capsys.readouterr().out
    assert "shards" in out and f"\n\n{finished}\n  kind " in out


def test_what_is_not_there_is_a_users_mistake(data, capsys):
    assert main([f"{data}:/no/such/folder"]) == 2
    assert "given something there, but /no/such/folder is not" in capsys.readouterr().err
