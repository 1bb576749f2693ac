"""The server side. Importing this imports nothing: a GPU node may have the base install only."""
