"""A plain FastAPI server over CTranslate2: each request is a call of `translate_batch` with one text.

`python fastapi_server.py FOLDER PORT`; FOLDER is that of `regard export --to ctranslate2`.
"""

import json
import math
import sys
from pathlib import Path

import ctranslate2
import fastapi
import tokenizers
import uvicorn

folder, port = Path(sys.argv[1]), int(sys.argv[2])
settings = json.loads((folder / "generation.json").read_text())
engine = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)
tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
app = fastapi.FastAPI()


@app.post("/translate")
def translate(text: str = fastapi.Body(embed=True)) -> dict[str, str]:
    pieces = tokenizer.encode(text, add_special_tokens=False).tokens
    most = math.ceil(settings["max_length_ratio"] * len(pieces)) + settings["max_length_offset"]
    [answer] = engine.translate_batch(
        [pieces],
        beam_size=settings["beam_size"],
        max_decoding_length=most,
        max_input_length=0,
        min_decoding_length=0,
    )
    return {"text": tokenizer.decode([tokenizer.token_to_id(piece) for piece in answer.hypotheses[0]])}


uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")
