"""Adapters by name: small trained parts beside a frozen model. Each is one file, and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.base.section import form_of, union_of
from trainwright.trainer.models.adapters.ia3 import Ia3Section
from trainwright.trainer.models.adapters.lora import LoraSection
from trainwright.trainer.models.adapters.section import AdapterSection
from trainwright.trainer.models.adapters.soft_prompts import PrefixSection, PromptSection

ADAPTERS: dict[str, type[AdapterSection]] = {
    form_of(form): form for form in (LoraSection, Ia3Section, PromptSection, PrefixSection)
}
DEFAULT_ADAPTER = "lora"

if TYPE_CHECKING:
    AnyAdapter = LoraSection | Ia3Section | PromptSection | PrefixSection
else:
    AnyAdapter = union_of(ADAPTERS.values(), DEFAULT_ADAPTER)
"""The adapter, chosen by `name`."""
