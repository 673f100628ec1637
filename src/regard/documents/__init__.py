"""Documents: the texts in HTML and in subtitles, and the documents with translations in their place."""
