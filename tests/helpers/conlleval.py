"""The script conlleval of CoNLL-2000 (Tjong Kim Sang and Buchholz 2000), word by word."""

from collections import Counter

ENDS = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}
STARTS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}


def split_tag(tag):
    prefix, _, kind = tag.partition("-")
    return prefix, kind


def ends_chunk(before, now):
    (prefix, kind), (next_prefix, next_kind) = before, now
    return (prefix, next_prefix) in ENDS or (prefix != "O" and kind != next_kind)


def starts_chunk(before, now):
    (prefix, kind), (next_prefix, next_kind) = before, now
    return (prefix, next_prefix) in STARTS or (next_prefix != "O" and kind != next_kind)


def count_chunks(true_sentences, predicted_sentences):
    """Counters of correct, true and predicted chunks by type."""
    correct, true, predicted = Counter(), Counter(), Counter()
    for sentence, guesses in zip(true_sentences, predicted_sentences, strict=True):
        in_correct, last_true, last_guess = "", ("O", ""), ("O", "")
        words = [*zip(sentence, guesses, strict=True), ("O", "O")]  # a blank line ends the sentence
        for now_true, now_guess in ((split_tag(a), split_tag(b)) for a, b in words):
            true_ends, guess_ends = (
                ends_chunk(last_true, now_true),
                ends_chunk(last_guess, now_guess),
            )
            true_starts = starts_chunk(last_true, now_true)
            guess_starts = starts_chunk(last_guess, now_guess)
            if in_correct:
                if true_ends and guess_ends and last_true[1] == last_guess[1]:
                    correct[in_correct] += 1
                    in_correct = ""
                elif true_ends != guess_ends or now_true[1] != now_guess[1]:
                    in_correct = ""
            if true_starts and guess_starts and now_true[1] == now_guess[1]:
                in_correct = now_true[1]
            true[now_true[1]] += true_starts
            predicted[now_guess[1]] += guess_starts
            last_true, last_guess = now_true, now_guess
    return correct, true, predicted
