models list --family gpt2 --format markdown
