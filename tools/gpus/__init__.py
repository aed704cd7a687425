"""GPUs: which the machine has for runs, which run is on which, and which the next run gets (TUNE-3)."""

from trainwright.tools.gpus.assign import (
    Waiter,
    assign,
    began_on_cpu,
    kind_of_baseline,
    kind_of_run,
    kind_of_study,
    waiting,
    wanted_gpus,
)
from trainwright.tools.gpus.choice import Assignment, Need
from trainwright.tools.gpus.inventory import Device, gpus_of, has_gpu
