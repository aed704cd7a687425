"""Stages of a project, from ingestion to registration: recorded, made by one call, and written out (PIPE-1, PIPE-4)."""

from trainwright.tools.pipeline.job import make_stage
from trainwright.tools.pipeline.stages import STAGES, data_document, pipeline_document, stages_of_project
from trainwright.tools.pipeline.writing import Definition, pipeline_files, read_definition, write_pipeline
