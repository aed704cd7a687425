"""Pages of runs and projects as one HTML file each: no script, no request, light and dark, fit to print."""

from trainwright.tools.reports.pages.writing import has_new_page, write_project_page, write_run_page

__all__ = ["has_new_page", "write_project_page", "write_run_page"]
