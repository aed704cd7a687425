"""Stages of a project, from ingestion to registration: recorded, made by one call, and written out (PIPE-1, PIPE-4)."""

from trainwright.tools.pipeline.definition import Definition, read_definition
from trainwright.tools.pipeline.documents import data_document, pipeline_document
from trainwright.tools.pipeline.making import make_stage
from trainwright.tools.pipeline.stages import STAGES, Stage, stages_of_project
from trainwright.tools.pipeline.writing import pipeline_files, write_pipeline

__all__ = [
    "STAGES",
    "Definition",
    "Stage",
    "data_document",
    "make_stage",
    "pipeline_document",
    "pipeline_files",
    "read_definition",
    "stages_of_project",
    "write_pipeline",
]
