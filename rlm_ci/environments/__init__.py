"""How a model may act: by tools, by plans, by code."""
