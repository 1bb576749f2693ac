"""Collectors: what runs beside training and states facts about it. Base install only."""
