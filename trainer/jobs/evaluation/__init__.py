"""Evaluation of a trained run on its validation rows: predictions, confusion, importance, best and worst rows."""
