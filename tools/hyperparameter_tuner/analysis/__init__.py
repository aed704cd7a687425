"""Analysis of a study: importance of its parameters, and pictures of its trials (TUNE-4)."""

from trainwright.tools.hyperparameter_tuner.analysis.importance import Importance, importance_of
from trainwright.tools.hyperparameter_tuner.analysis.pictures import draw_study, drawable_kinds
from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject, subject_of
