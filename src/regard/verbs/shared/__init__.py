"""What several verbs share: loading models, scoring translations, suggestions without a model."""
