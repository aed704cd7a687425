"""Metrics as people write them, in English and German, with ours: `ROC AUC`, `F1-Maß`, `QWK`, `off by`.

A metric that is not measured here is found too, with those that come near it: so that none is taken for another without
a word. Light: free of numpy and torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainwright.trainer.clean_room.names import LEVELS
from trainwright.trainer.metrics.built_in import BUILT_IN

CLASS_METRICS = ("accuracy", "balanced_accuracy", "f1", "auc", "matthews_correlation")
NUMBER_METRICS = ("mae", "rmse", "mape", "r2")
"""The usual ones of each kind: what is offered where a sentence names none."""
IN_UNITS = frozenset({"mae", "rmse", "mse", "median_absolute_error"})
"""Metrics in the target's unit, or its square: no shares."""


@dataclass(frozen=True)
class Word:
    """A metric as people write it."""

    name: str
    pattern: str
    metric: str | None = None
    """Ours; None where it is not measured here."""
    near: tuple[str, ...] = ()
    """Ours that come near it, where it is another; or that it could be too, or is of targets that ours is not for."""
    note: str = ""
    """What is to be said where it is taken for ours."""
    convert: Callable[[float], float] = float
    """Its target in ours."""
    falls: bool = False
    """Whether less of it is more of ours."""
    needs_number: bool = False
    """Whether the word names a metric beside a number alone: `precision`, `loss`, `correct`."""
    exact_case: bool = False
    open: str = "is not built in, and no other metric is taken for it"
    """Why it is asked about, where it is not ours."""


def _error_rate(value: float) -> float:
    return round(1 - (value / 100 if value > 1 else value), 12)


_AVERAGE = r"(?:macro|makro)(?:[- ]?averaged|[- ]?gemittelt\w*)?"
_F1 = r"f[-_ ]?1(?:[-_ ]?(?:score|ma(?:ss|ß)|wert))?"
_OF_CLASS = r"(?:\s+(?:of|on|for|der|für)\s+(?:the\s+)?(?:class|klasse|positive)\b)"
_TOP = r"top[-_ ]?{}(?:[-_ ]?(?:accuracy|acc|genauigkeit))?\b"
_PER_IMAGE = r"(?:[-_ ](?:per|by|over)[-_ ](?:image|picture|sample|scan|case)s?)"
_IOU = r"(?:iou|jaccard(?:[- ](?:index|score))?|intersection over union)"
_PLAYED = (
    'it is a mean over episodes, which a function of (program, seed) plays: metrics [{"use": "file.py:function", '
    '"episodes": 100}] of create_project'
)
_RANKS = ("mrr", "ndcg_at_10", "top_3_accuracy", "top_5_accuracy")
_DICE = r"dice(?:[- ](?:score|coefficient|koeffizient|index))?"
_PINBALL, _QUANTILE = r"(?:pinball|quantile) loss", r" ?%?[- ]*(?:percentile|quantile)"


def _pinball(level: int) -> Word:
    """Return the word for the pinball loss of a quantile in percent: `p90`, `90th percentile`, `0.9`."""
    share = rf"0?[.,]{f'{level:02}'.removesuffix('0')}0?"
    at = rf"(?<![\d.,])(?:{share}|[pq]?{level}(?:th)?)(?![.,]?\d)"
    behind = rf"{_PINBALL} (?:(?:at|for|on) (?:the )?{at}(?:{_QUANTILE}| ?%)?|of (?:the )?{at}{_QUANTILE})"
    return Word("pinball loss", rf"{at}(?:{_QUANTILE}| ?%)?[- ]{_PINBALL}|{behind}|pinball {level}", f"pinball_{level}")


WORDS = (
    Word("balanced accuracy", r"bal(?:anced)?[-_ ]acc(?:uracy)?|(?:aus)?balancierte[nr]? (?:genauigkeit|accuracy)"
         r"|unweighted average recall", "balanced_accuracy"),
    Word("macro recall", rf"{_AVERAGE}[-_ ]*recall|recall[-_ ]*\(?{_AVERAGE}\)?", "recall_macro"),
    Word("macro precision", rf"{_AVERAGE}[-_ ]*precision|precision[-_ ]*\(?{_AVERAGE}\)?", "precision_macro"),
    Word("weighted precision", r"weighted[-_ ]precision|precision[-_ ]\(?weighted\)?", "precision_weighted"),
    Word("weighted recall", r"weighted[-_ ]recall|recall[-_ ]\(?weighted\)?", "recall_weighted"),
    Word("micro precision", r"micro[-_ ]precision|precision[-_ ]\(?micro\)?", "precision_micro"),
    Word("micro recall", r"micro[-_ ]recall|recall[-_ ]\(?micro\)?", "recall_micro"),
    Word("top-3 accuracy", _TOP.format("3"), "top_3_accuracy"),
    Word("top-5 accuracy", _TOP.format("5"), "top_5_accuracy"),
    Word("top-k accuracy", _TOP.format(r"(?:[2-9]|1\d|k)"), near=("top_3_accuracy", "top_5_accuracy")),
    Word("top-k error", r"top[-_ ]?(?:[2-9]|1\d|k)[-_ ]error(?:[-_ ]rate)?", near=("top_3_accuracy", "top_5_accuracy")),
    Word("macro F1", rf"{_AVERAGE}[-_ ]*{_F1}|{_F1}[-_ ]*\(?{_AVERAGE}\)?", "f1"),
    Word("weighted F1", rf"(?:weighted|gewichtete[rs]?)[-_ ]*{_F1}|{_F1}[-_ ]*\(?weighted\)?", "f1_weighted"),
    Word("micro F1", rf"(?:micro|mikro)[-_ ]*{_F1}|{_F1}[-_ ]*\(?micro\)?", "f1_micro"),
    Word("binary F1", rf"binary[-_ ]*{_F1}|{_F1}[-_ ]*\(?binary\)?|{_F1}{_OF_CLASS}", "f1_binary", near=("f1",)),
    Word("entity F1", rf"(?:entity|entitäten|ner|seqeval|span-level)[-_ ]*(?:level[-_ ]*)?{_F1}|seqeval", "entity_f1"),
    Word("span F1", rf"(?:span|squad|token|qa)[-_ ]*{_F1}", "span_f1"),
    Word("F1", rf"{_F1}|f[- ](?:score|ma(?:ss|ß))", "f1", near=("f1_binary", "entity_f1", "span_f1"),
         note="F1 is the mean over the classes here (macro)"),
    Word("F2", r"f[-_ ]?2(?:[-_ ]?score)?\b", "f2_binary", near=("f1",)),
    Word("F0.5", r"f[-_ ]?0[.,]?5(?:[-_ ]?score)?\b", "f05_binary", near=("f1",)),
    Word("F-beta", r"f[-_ ]?beta(?:[-_ ]?score)?\b", near=("f2_binary", "f05_binary", "f1_binary")),
    Word("mean average precision", r"mean average precision", near=("average_precision", "group_map")),
    Word("mean average precision", r"MAP\b(?:@\d+)?", near=("average_precision", "group_map"), exact_case=True,
         needs_number=True),
    Word("average precision", r"average precision", "average_precision"),
    Word("area under the precision-recall curve", r"(?:pr|precision[-/ ]recall)[-_ ]auc|auc[-_ ]?prc?\b|au[-_ ]?prc?\b"
         r"|area under the (?:pr|precision[-/ ]recall)[- ]curve", "average_precision",
         note="the area under the precision-recall curve is average_precision, its sum of steps"),
    Word("ROC AUC", r"roc[-_ ]?auc|auc[-_ ]?roc|auroc|auc\b|area under (?:the )?(?:roc |receiver[\w ]*)?curve"
         r"|c-statistic|fläche unter der (?:roc-?)?kurve", "auc"),
    Word("ROC AUC", r"roc\b", "auc", needs_number=True),
    Word("Matthews correlation", r"matthews(?:[-_ ]corr\w*)?(?:[-_ ]coefficient)?|mcc\b", "matthews_correlation"),
    Word("quadratic kappa", r"quadratic(?:ally)? (?:weighted )?(?:cohen'?s? )?kappa|qwk\b", "quadratic_kappa"),
    Word("weighted kappa", r"(?:linear(?:ly)? )?weighted (?:cohen'?s? )?kappa",
         near=("quadratic_kappa", "cohen_kappa")),
    Word("Cohen's kappa", r"(?:cohen'?s? )?kappa", "cohen_kappa"),
    Word("mean IoU", rf"m(?:ean)?[-_ ]?{_IOU}", "mean_iou", near=("foreground_iou",)),
    Word("IoU per image", rf"(?:mean )?{_IOU}{_PER_IMAGE}", "iou_per_image"),
    Word("IoU", rf"(?:foreground )?{_IOU}", "foreground_iou", near=("mean_iou", "iou_per_image"),
         note="IoU is foreground_iou here, without the background; mean_iou counts it as a class"),
    Word("Dice per image", rf"(?:mean )?{_DICE}{_PER_IMAGE}", "dice_per_image"),
    Word("Dice", _DICE, "dice", near=("dice_per_image",), needs_number=True,
         note="Dice is over all pixels here, without the background; dice_per_image is the mean over pictures"),
    Word("mean average precision of boxes", r"mAP(?:@\S+)?", near=(), exact_case=True),
    Word("specificity", r"specificity|spezifität|true negative rate", "specificity"),
    Word("recall", r"recall|sensitivity|sensitivität|true positive rate|trefferquote|hit rate", "recall_binary",
         near=("recall_macro", "balanced_accuracy")),
    Word("precision", r"(?<!mixed )(?<!half )(?<!full )precision|präzision|positive predictive value",
         "precision_binary", near=("precision_macro",)),
    Word("accuracy", r"accuracy|acc\b|genauigkeit|richtigkeit|exactness", "accuracy"),
    Word("share of correct answers", r"(?:are |is |classified |sorted )?(?:correct(?:ly)?|accurate(?:ly)?|right|richtig"
         r"|korrekt|treffsicher|stimm(?:en|t))", "accuracy", needs_number=True,
         note="the share that is right is accuracy"),
    Word("error rate", r"(?:classification |misclassification )?error[- ]rate|misclassif\w+|fehlerrate|fehlerquote",
         "accuracy", convert=_error_rate, falls=True, needs_number=True, note="the error rate is 1 - accuracy"),
    Word("false positive rate", r"false[- ]positive rate|falsch[- ]positiv[- ]rate|fpr\b", "specificity",
         convert=_error_rate, falls=True, needs_number=True, note="the false positive rate is 1 - specificity"),
    Word("false negative rate", r"false[- ]negative rate|falsch[- ]negativ[- ]rate|fnr\b|miss rate", "recall_binary",
         convert=_error_rate, falls=True, needs_number=True, note="the false negative rate is 1 - recall"),
    Word("share of false alarms or misses", r"false[- ](?:positive|negative|alarm)s?|(?:are |is )?missed|fehlalarme?",
         near=("precision_binary", "recall_binary", "specificity"), needs_number=True),
    Word("Gini", r"gini(?:[- ](?:coefficient|index|koeffizient))?", near=("auc",), needs_number=True),
    Word("Kolmogorov-Smirnov", r"kolmogorov[- ]smirnov|KS\b", near=("auc",), needs_number=True, exact_case=True),
    Word("lift", r"(?:top[- ](?:\w+ )?)?lift\b", near=("auc",), needs_number=True),
    Word("exact match", r"exact[-_ ]match", "exact_match"),
    Word("exact match", r"EM\b", "exact_match", needs_number=True, exact_case=True),
    Word("PSNR", r"psnr\b|peak[- ]signal[- ]to[- ]noise(?:[- ]ratio)?", "psnr"),
    Word("SSIM", r"ssim\b|structural similarity(?: index)?", "ssim"),
    Word("SMAPE", r"s[-_]?mape|symmetric (?:mean )?(?:absolute )?percentage error", "smape"),
    Word("MAPE", r"mape\b|mean absolute percentage error|mean percentage error|percentage error"
         r"|mittlere[rn]? (?:absolute[rn]? )?prozentuale[rn]? (?:abweichung|fehler)", "mape"),
    Word("MASE", r"mase\b|mean absolute scaled error", "mase", near=("mae", "mape")),
    *map(_pinball, LEVELS),
    Word("pinball loss", _PINBALL, near=("pinball_90", "pinball_10", "pinball_50"),
         open="is of one quantile, and the sentence names none beside it"),
    Word("median absolute error", r"median absolute error|medae\b|median error", "median_absolute_error"),
    Word("MAE", r"mae\b|mean absolute error|average (?:absolute )?error|off by|daneben"
         r"|(?:to )?within(?=\s[$€£]?\s?[\d.,]+k?(?:\s\w+)?\s(?:on average|of the (?:true|actual|real)))"
         r"|(?:are |is |be )?wrong by(?=(?:\s[^\s%;]+){1,6}?\son average)"
         r"|mittlere[rn]? (?:absolute[rn]? )?(?:fehler|abweichung)", "mae"),
    Word("an error of no named kind", r"errors?|mistakes?|(?:are |is )?wrong(?:ly)?|to within|fehlern?|falsch\w*"
         r"|abweichung\w*", near=("accuracy", "mae", "rmse", "mape"), needs_number=True),
    Word("RMSLE", r"rmsle|root mean squared log\w* error", "rmsle"),
    Word("RMSE", r"rmse\b|root[- ]mean[- ]squared?[- ]error|wurzel des mittleren quadratischen fehlers", "rmse"),
    Word("MSE", r"mse\b|mean[- ]squared?[- ]error|mittlere[rn]? quadratische[rn]? fehler", "mse"),
    Word("adjusted R²", r"adjusted r(?:²|\^?2\b)", near=("r2",)),
    Word("R²", r"r²|r\^2\b|r2\b|r[- _]?squared|coefficient of determination|bestimmtheitsma(?:ss|ß)", "r2"),
    Word("R²", r"(?:of|der) (?:the )?varian(?:ce|z)", "r2", needs_number=True),
    Word("explained variance", r"explained variance|erklärte varianz", "explained_variance"),
    Word("Pearson correlation", r"pearson(?:'s)?(?: r\b| correlation)?(?: coefficient)?", "pearson"),
    Word("rank correlation", r"spearman(?:'s)?(?: rho| rank)?(?: correlation)?(?: coefficient)?|rank correlation"
         r"|rangkorrelation", "spearman"),
    Word("correlation", r"correlation(?: coefficient)?|korrelation", near=("pearson", "spearman", "r2"),
         needs_number=True),
    Word("perplexity", r"perplexity|perplexität|ppl\b", "perplexity"),
    Word("bits per byte", r"bits[-_ ]per[-_ ]byte|bpb\b", "bits_per_byte"),
    Word("bits per character", r"bits[-_ ]per[-_ ](?:char\w*|token)|bpc\b", near=("bits_per_byte", "perplexity")),
    Word("ROUGE-1", r"rouge[-_ ]?1\b", "rouge_1"),
    Word("ROUGE-2", r"rouge[-_ ]?2\b", "rouge_2"),
    Word("ROUGE-L", r"rouge[-_ ]?l\b", "rouge_l"),
    Word("ROUGE", r"rouge\b", near=("rouge_1", "rouge_2", "rouge_l")),
    Word("BLEU", r"(?:sacre)?bleu\b", "bleu"),
    Word("chrF", r"chrf\b(?!\+)", "chrf"),
    Word("METEOR", r"meteor\b|chrf\+\+", near=("bleu", "chrf", "rouge_l")),
    Word("word error rate", r"word[- ]error[- ]rate|wortfehlerrate", "wer"),
    Word("word error rate", r"WER\b", "wer", exact_case=True, needs_number=True),
    Word("character error rate", r"character[- ]error[- ]rate|zeichenfehlerrate", "cer"),
    Word("character error rate", r"CER\b", "cer", exact_case=True, needs_number=True),
    Word("concordance index", r"concordance(?:[- ]index)?|c-index", "concordance"),
    Word("mean reciprocal rank", r"mrr\b|mean reciprocal rank", "mrr", near=("group_mrr",),
         note="MRR is of the right class among all here"),
    Word("nDCG@10", r"ndcg[-_ ]?(?:@|at[-_ ]?)?10\b", "ndcg_at_10", near=("group_ndcg_at_10",),
         note="nDCG@10 is of the right class among all here: no groups of rows are ranked"),
    Word("nDCG@5", r"ndcg[-_ ]?(?:@|at[-_ ]?)?5\b", "group_ndcg_at_5", near=_RANKS),
    Word("nDCG", r"ndcg\b", near=(*_RANKS, "group_ndcg_at_10")),
    Word("recall@10", r"(?:recall|hits?)[-_ ]?@10\b", "group_recall_at_10", near=_RANKS),
    Word("recall@3", r"(?:recall|hits?)[-_ ]?@3\b", "top_3_accuracy",
         note="recall@3 of one right class is top_3_accuracy"),
    Word("recall@5", r"(?:recall|hits?)[-_ ]?@5\b", "top_5_accuracy", near=("group_recall_at_5",),
         note="recall@5 of one right class is top_5_accuracy"),
    Word("ranking metric", r"ndcg\S*|recall@\d+|precision@\d+|hits?@\d+", near=_RANKS),
    Word("Brier score", r"brier(?:[- ]score)?", "brier"),
    Word("calibration error", r"(?:expected )?calibration error|ece\b", "calibration_error"),
    Word("log loss", r"log[-_ ]?loss", "log_loss"),
    Word("picture quality", r"psnr\b|ssim\b|fid\b|lpips\b", near=()),
    Word("return", r"(?:mean |average |episode |episodic )*(?:return|reward)\b", near=(), needs_number=True,
         note=_PLAYED),
    Word("win rate", r"(?:win|success)[- ]?rate\b|gewinnrate|siegquote", near=(), note=_PLAYED),
    Word("linear probe accuracy", r"linear[-_ ]probe(?:[-_ ]accuracy)?", "linear_probe_accuracy"),
    Word("neighbour accuracy", r"(?:nearest[-_ ])?neighbou?r[-_ ]accuracy", "neighbour_accuracy"),
    Word("robust accuracy", r"(?:robust|adversarial)[-_ ]accuracy|accuracy under attack", "robust_accuracy"),
    Word("loss", r"(?:validation|val|test|cross[- ]entropy)[-_ ]?loss|cross[- ]entropy", "loss"),
    Word("loss", r"loss\b", "loss", needs_number=True),
)  # fmt: skip
"""The more particular first: where two match at one place, the longer counts."""


def is_share(metric: str | None) -> bool:
    """Return whether a metric is of classes, and 1 at most."""
    known = BUILT_IN.get(metric or "")
    return known is not None and "classification" in known.tasks and known.bounds[1] == 1.0
