"""Self-contained HTML pages: documents, tables, charts and drawings; no network, no CDN."""
