"""What runs leave behind: folders, records, tables, figures."""
