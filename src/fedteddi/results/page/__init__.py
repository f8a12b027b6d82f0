"""The report page: one HTML file about the runs of a folder, to look at in any browser (docs/page.md)."""
