import subprocess

import pytest

from toolkit.common.system import describe_commit


@pytest.fixture(autouse=True)
def fresh():
    describe_commit.cache_clear()


@pytest.fixture
def repository(tmp_path):
    """A git repository with one committed file, in the folder `code`."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "model.py").write_text("WIDTH = 8\n")
    call = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run([*call, *words], check=True)
    return tmp_path


def head(folder):
    words = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_describe_commit_gives_the_commit_of_a_clean_folder(repository):
    (repository / "notes.txt").write_text("outside the folder")
    expected = {"commit": head(repository), "uncommitted_changes": False}
    assert describe_commit(repository / "code") == expected


def test_describe_commit_tells_of_new_files(repository):
    (repository / "code" / "new.py").write_text("WIDTH = 9\n")
    assert describe_commit(repository / "code")["uncommitted_changes"] is True


def test_describe_commit_ignores_the_repository_around_an_installed_package(repository):
    (repository / ".gitignore").write_text("venv\n")
    (repository / "venv").mkdir()
    (repository / "venv" / "package.py").write_text("")
    assert describe_commit(repository / "venv") == {"no_commit": "not a git repository"}


def test_describe_commit_ignores_git_variables_of_a_hook(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    commit = describe_commit(repository / "code")
    monkeypatch.delenv("GIT_DIR")
    assert commit["commit"] == head(repository)
