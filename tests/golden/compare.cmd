compare gpt2-h100 --interval --db :memory:
