"""Jobs for rented and shared machines: rendered from a project, checked before they are written, never started."""

from trainwright.tools.clouds.gpus import asked_gpu, gpu_table
from trainwright.tools.clouds.rendering import CloudFiles, render_cloud
from trainwright.tools.clouds.request import PLATFORMS, CloudRequest, read_cloud_request
