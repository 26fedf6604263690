"""Tagged words: CoNLL-U, Penn Treebank and two columns."""
