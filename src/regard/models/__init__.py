"""Models built from layers, each with its own config class, and LoRA adapters for them."""
