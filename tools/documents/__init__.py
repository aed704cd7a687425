"""The documents that agents read, and the typed front matter that makes some of them enforced."""

from trainwright.tools.documents.front_matter import SKILL, read_document, read_named
