"""Sentences that ask for a search, with how many trials, and those that only sound like it (Q151)."""

from __future__ import annotations

import pytest

from trainwright.trainer.config.search_words import AskedSearch, asked_ideas, asked_search

pytestmark = pytest.mark.requirement("TUNE-5")


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("price within 10 %, 6 trials, in fifteen minutes", AskedSearch("6 trials", 6)),
        ("try six settings and take the best", AskedSearch("six settings", 6)),
        ("price within 10 %; a search of about 15 trials", AskedSearch("about 15 trials", 15)),
        ("no more than 8 trials", AskedSearch("no more than 8 trials", 8)),
        ("a 12-trial search over the rate", AskedSearch("12-trial", 12)),
        ("nimm höchstens zwölf Versuche", AskedSearch("höchstens zwölf Versuche", 12)),
        ("try 5 different learning rates", AskedSearch("5 different learning rates", 5)),
        ("please try a few settings", AskedSearch("try a few settings")),
        ("spam F1 of at least 0.93; a small search; a killed training goes on", AskedSearch("small search")),
        ("tune the learning rate", AskedSearch("tune")),
        ("find good hyperparameters", AskedSearch("hyperparameters")),
        ("Classify reviews; please tune the hyperparameters a little", AskedSearch("tune")),
        ("Try several learning rates", AskedSearch("Try several learning rates")),
        ("eine kleine Suche, dann das Modell", AskedSearch("kleine Suche")),
        ("on people not seen before; a search of about 6 trials", AskedSearch("about 6 trials", 6)),
        ("on people not seen before, a small search", AskedSearch("small search")),
        ("for cows it has never seen\nTune the rate", AskedSearch("Tune")),
        ("no transformer but tune the forest", AskedSearch("tune")),
        ("beat the linear model by tuning the rate", AskedSearch("tuning")),
        ("better than 0.9 after tuning", AskedSearch("tuning")),
    ],
)
def test_a_sentence_asks_for_a_search_with_its_number_of_trials(sentence: str, asked: AskedSearch) -> None:
    assert asked_search(sentence) == asked


@pytest.mark.parametrize(
    "sentence",
    [
        "Fine-tune a small language model",
        "A semantic search engine for tickets",
        "rank the results of our search engine",
        "order the hotels of each search by clicks",
        "patients of three clinical trials",
        "the outcome of patients in 3 trials",
        "search queries by topic",
        "whether a search found anything",
        "A quick classifier, no tuning",
        "Predict prices. Don't do any hyperparameter search.",
        "no trials, and 6 epochs",
        "predict the price from the settings of the machine",
        "it should beat the tuned gradient boosting of my colleague",
        "better than the model that was tuned by grid search last year",
        "better than our boosting, which was tuned by grid search",
        "at least as good as the hyperparameter search of last year",
        "the boosting has already been tuned, now a network",
    ],
)
def test_a_sentence_that_only_sounds_like_it_asks_for_none(sentence: str) -> None:
    assert asked_search(sentence) is None


@pytest.mark.requirement("TUNE-5")
@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("An autonomous research loop over net.py for twenty minutes", "autonomous research loop"),
        ("Try a few ideas on my network overnight, accuracy 0.9", "Try a few ideas"),
        ("autoresearch on train.py", "autoresearch"),
        ("Change the network, train, and keep only real improvements", "keep only real improvements"),
        ("Probiere fünf Ideen aus und behalte nur echte Verbesserungen", "Probiere fünf Ideen"),
        ("Classify patients of a research study, F1 above 0.8", ""),
        ("I have no idea which model; market research data, accuracy 0.8", ""),
        ("Run my training loop over 5 epochs", ""),
        ("Train the model; do not try new ideas", ""),
    ],
)
def test_a_sentence_that_asks_for_ideas_is_read(sentence: str, words: str) -> None:
    assert asked_ideas(sentence) == words
