"""Example projects of skills/example-projects: what there is, what each needs, copying one, and how one has ended."""

from trainwright.tools.examples.catalogue import Example, example_named, examples, read_example
from trainwright.tools.examples.copying import copy_example, missing_packages, require_packages
from trainwright.tools.examples.outcome import Outcome, outcome_of
