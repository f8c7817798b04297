predict --model llama-3-8b --gpus 64 --tp 4 --pp 4 --explain memory --db :memory:
