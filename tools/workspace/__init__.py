"""The folder in which the server keeps its state: database, settings, projects."""

from trainwright.tools.workspace.settings import RetentionPolicy, Settings
from trainwright.tools.workspace.workspace import Workspace
