"""``pymq conf``: examples of settings, services, dashboards, alerts and pipelines."""
