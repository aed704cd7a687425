"""The model registry (CKPT-6, REG-1): versions with lineage, compared on the same rows, promoted, rolled back."""

from trainwright.tools.registry.comparing import Comparison, compare_models
from trainwright.tools.registry.promoting import Promotion, promote
from trainwright.tools.registry.registering import register_model
from trainwright.tools.registry.versions import Models, follow_all, list_models, model_folder
