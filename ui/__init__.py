"""The pages: Dash on the server's own FastAPI. Reads through `server.queries` only; draws with `ui.figures`."""
