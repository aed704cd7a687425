"""Sentences that name steps for after the release, and those that only sound like it (Q159)."""

from __future__ import annotations

import time

import pytest

from trainwright.trainer.config.later_words import asked_later

pytestmark = pytest.mark.requirement("PHASE-11")

LATER = (
    ("train on a.csv, then add new_cases.csv and make a second version",
     "then add new_cases.csv and make a second version", "again"),
    ("F1 of 0.9; later retrain with the new rows", "later retrain with the new rows", "again"),
    ("train v1 on a.csv, make a second version with b.csv and put the better one into production",
     "make a second version with b.csv and put the better one into production", "again promoted"),
    ("release it, then promote it", "then promote it", "promoted"),
    ("Train a model and then use the newer cases", "then use the newer cases", "again"),
    ("Trainiere ein Modell, dann mit den neuen Daten eine zweite Version", None, "again"),
    ("train it and compare the first version with the second version", None, "again compared"),
    ("Please predict churn from jan.csv. Once that is released, fold in feb.csv and see whether v2 beats v1.",
     None, "again compared"),
    ("churn from jan.csv; retrain w/ feb.csv after release; promote the winner", None, "again promoted"),
    ("Could you train a classifier on train.csv and, when it is out, redo it with march.csv?", None, "again"),
    ("Predict price from houses.csv. We'll get q2.csv later, so please make a second release with it then.",
     "We'll get q2.csv later, so please make a second release with it then", "again"),
    ("v1 on a.csv, v2 on b.csv, compare both", "v2 on b.csv, compare both", "again compared"),
    ("Fit a.csv to an R2 of 0.8. Next month I will append b.csv and train it again.", None, "again"),
    ("forecast sales from sales.csv and put it into production", "put it into production", "promoted"),
    ("Train on a.csv, after that do the same with b.csv and compare the two.", None, "again compared"),
    ("Build a spam filter from mails.csv. As soon as it is finished, update the model with new_mails.csv.",
     None, "again"),
    ("Sag Ausfälle aus a.csv voraus. Danach bitte mit b.csv neu trainieren und beide vergleichen.",
     None, "again compared"),
    ("Erst a.csv lernen, später b.csv hinzufügen und die bessere Version in Produktion nehmen", None, "again promoted"),
    ("digits from digits.csv, accuracy 95 %. When done, score fresh.csv with it.", "When done, score fresh.csv with it",
     "scored"),
    ("I'd like a churn model from churn.csv; later on I want to evaluate it on june.csv and, if it drifted, retrain.",
     None, "again scored"),
    ("Predict a from a.csv. When that is released, tell me how good it is on new.csv, then add those rows to the data, "
     "make a second version, compare both and put the better one into production.", None,
     "again compared promoted scored"),
    ("Predict a from a.csv. When that is released, retrain it with b.csv", None, "again"),
    ("Make a model of a.csv and promote it to production, please.", "promote it to production, please", "promoted"),
    ("Predict churn from t.csv; afterwards make a second version without outliers.csv", None, "again"),
    ("Predict churn from customers.csv. Then score march.csv, then build a second version with a bigger model and "
     "compare both versions.", None, "again compared scored"),
    ("Sag Kündigungen aus kunden.csv voraus. Danach bewerte maerz.csv, und erstelle eine zweite Version mit mehr "
     "Schichten.", None, "again scored"),
    ("churn from a.csv; once released, retrain with everything except complaints.csv", None, "again"),
    ("churn from customers.csv. After the release, add march.csv instead of customers.csv.", None, "again"),
    ("Predict churn from customers.csv, then make version 2 from march.csv", "then make version 2 from march.csv",
     "again"),
    ("Predict churn from customers.csv. Then make a second version from customers.csv and march.csv and compare both "
     "versions.", None, "again compared"),
    ("Predict price from a.csv. Later use new rows and make a second version, not now but after the release",
     None, "again"),
    ("churn from customers.csv. After the release, do the same with orders.csv in a separate project.",
     "After the release, do the same with orders.csv in a separate project", ""),
    ("Sag Preise aus haeuser.csv voraus. Später kommt haeuser_2025.csv dazu, aber das machen wir nicht jetzt.",
     "Später kommt haeuser_2025.csv dazu, aber das machen wir nicht jetzt", ""),
)  # fmt: skip


@pytest.mark.parametrize(("sentence", "words", "steps"), LATER)
def test_a_sentence_names_what_comes_after_the_release(sentence: str, words: str | None, steps: str) -> None:
    found = asked_later(sentence)
    assert found is not None
    assert words in (None, found.words)
    assert " ".join(sorted(found.steps)) == steps


@pytest.mark.parametrize(
    "sentence",
    [
        "train it, then export it as ONNX",
        "predict whether a user installs the new version of the app",
        "who buys and then returns an item",
        "sales of next week from the last 8 weeks",
        "Fine-tune a pretrained network, then prune it",
        "compare it with a linear model",
        "predict retention after the second release of a game",
        "a model; do not retrain it",
        "readmission within 30 days after the release from hospital, with new data of each visit",
        "Train a linear model and a boosted one on train.csv and compare both.",
        "Train two models on train.csv, then compare both models and keep the better one",
        "Learn from train.csv, then add b.csv as validation data",
        "Train on train.csv; afterwards include test.csv for the final test",
        "Predict the answer from train.csv, which has two versions of the survey",
        "train.csv has the ratings; compare the two versions of the survey",
        "Our old churn model has drifted. Please train a new version on train.csv.",
        "Retrain our churn model on train.csv.",
        "Please build another version of the churn classifier from train.csv, with an F1 of 0.8",
        "predict from train.csv which customers compare both versions before they buy",
        "From train.csv, which employee is promoted next year?",
        "Fine-tune a ViT on pictures/, retrain only the last layer",
        "Train on train.csv, then train it again with three seeds and compare them",
        "Vergleiche beide Modelle auf train.csv und nimm das bessere",
        "a model of train.csv that we can put into production on phones",
        "Clean train.csv, then add new features and train a network",
        "Predict conversion in train.csv, where users saw v1 or v2 of the page",
        "First pretrain on train.csv, then fine-tune on b.csv",
        "Predict churn from train.csv. After the release, roll back if customers complain.",
        "Predict churn from train.csv. After the release, check labels.csv for wrong labels.",
        "Predict churn from train.csv; after the release, tune the next one instead of retraining it",
    ],
)
def test_a_sentence_that_ends_with_the_release_names_nothing_later(sentence: str) -> None:
    assert asked_later(sentence) is None


def test_a_long_text_is_read_in_time_that_grows_with_its_length() -> None:
    began = time.process_time()
    for said in ("then do not make a second version, ", "who then make a second version, ", "score a.csv, ", "later "):
        asked_later((said * 1000)[:20_000])
    assert time.process_time() - began < 2


RETRAINED = "Release a model. Afterwards retrain with new.csv and compare both."


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", None),
        ("{'path': 'new.csv'}", None),
        ("{'path': ['old.csv', 'new.csv']}", "Afterwards retrain with new.csv and compare both"),
        ("{'url': 'sqlite:///rows.db'}", "Afterwards retrain with new.csv and compare both"),
    ],
)
def test_no_later_step_takes_the_only_data(given: str, words: str | None) -> None:
    found = asked_later(RETRAINED, given)
    assert (found and found.words) == words
