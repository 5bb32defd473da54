"""How a model may act: each module offers tools, carries them out and tells what came of it."""
