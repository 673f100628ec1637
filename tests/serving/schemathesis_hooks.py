"""For schemathesis: what a server knows in place of most texts made up, so that requests reach a model.

Without it nearly all would be refused for their languages. A text that is empty and all of another type stay.
"""

import schemathesis

MODELS = {  # of a path, where the first model does not have its task
    "/api/v1/generate": "chars",
    "/api/v1/embed": "vectors",
    "/api/v1/classify": "vectors",
    "/api/v1/tag": "tags",
    "/api/v1/fill": "masks",
    "/v1/embeddings": "vectors",
}
KNOWN = {
    "model": "en-de",
    "source": "en",
    "target": "de",
    "source_lang": "EN",
    "target_lang": "DE",
    "filename": "made-up.txt",
    "entries_format": "tsv",
}
HALF = {"entries": "station\tBahnhof", "file": "Where is the station?", "name": "made up"}


@schemathesis.hook
def map_body(context, body):
    found = known(body)
    if isinstance(body, dict) and "model" in found:
        found["model"] = MODELS.get(context.operation.path, found["model"])
    text = body.get("text") if isinstance(body, dict) else None
    if context.operation.path == "/api/v1/fill" and isinstance(text, str):
        found["text"] = f"[MASK] {text}"
    return found


def known(body):
    if not isinstance(body, dict):
        return body
    texts = {name: value for name, value in body.items() if isinstance(value, str)}
    found = {name: value for name, value in KNOWN.items() if texts.get(name)}
    found |= {name: value for name, value in HALF.items() if name in texts and len(repr(texts[name])) % 2}
    if isinstance(body.get("dictionaries"), list):
        return {**body, **found, "dictionaries": [known(each) for each in body["dictionaries"][:1]]}
    return {**body, **found}
