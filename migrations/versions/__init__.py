"""Steps of the schema, oldest first."""
