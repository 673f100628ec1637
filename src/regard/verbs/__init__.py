"""One file a verb: raw text in, answer out; what users import."""
