import pytest

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.word_level import FAIRSEQ_SPECIAL, WordLevelTokenizer
from toolkit.data.tokenizers.wrapped import ParallelTokenizer
from toolkit.distributed import World
from toolkit.training.run import TrainingRun
from toolkit.training.setup import check_embedding_sharing


def test_initial_weights_depend_only_on_the_seed(config, tmp_path):
    def weights(seed, name):
        c = config(seed=seed, save_dir=str(tmp_path / name))
        return TrainingRun(c, World()).trainer.parameters[0].tolist()

    assert weights(1, "a") == weights(1, "b") != weights(2, "c")


def test_resumed_run_keeps_its_precision(config):
    first = TrainingRun(config(max_update=1, precision="bf16"), World())
    first.fit()
    first.close()
    again = TrainingRun(config(max_update=2, precision="auto"), World())
    assert again.trainer.precision.name == "bf16"


def test_fp16_run_does_not_resume_on_a_cpu(config, tmp_path):
    c = config(max_update=1)
    first = TrainingRun(c, World())
    first.trainer.precision.name = "fp16"  # as a GPU would have saved it
    first.fit()
    first.close()
    with pytest.raises(ToolkitError, match=r"was trained in fp16.*GPU, or with --precision bf16\."):
        TrainingRun(config(max_update=2, precision="auto"), World())
    again = TrainingRun(config(max_update=2, precision="bf16"), World())
    assert again.trainer.precision.name == "bf16"


@pytest.fixture
def languages():
    """A tokenizer of two languages with one word each."""

    def make(source, target):
        inner, other = (
            WordLevelTokenizer.from_symbols([*FAIRSEQ_SPECIAL, word]) for word in (source, target)
        )
        return ParallelTokenizer(inner, other, source_lang="xx", target_lang="yy")

    return make


def test_share_embeddings_rejects_separate_dictionaries_of_equal_size(languages):
    model = build_model("transformer_tiny", vocabulary_size=6, share_embeddings="all")
    with pytest.raises(ToolkitError, match=r"but is all\. Choose --arch.share-embeddings decoder"):
        check_embedding_sharing(model, languages("cat", "Katze"))
    check_embedding_sharing(model, languages("cat", "cat"))
    check_embedding_sharing(build_model("transformer_tiny", vocabulary_size=6), languages("a", "b"))
