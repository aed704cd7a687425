"""Versions of a project's data: by content, projected from the sealed smoke runs that saw them (PIPE-1, REPRO-4)."""

from trainwright.tools.versions.diff import card_of, diff_text, diff_versions
from trainwright.tools.versions.versions import DataVersion, data_versions, version_named, version_of
