predict --model llama-3-8b --gpus 64 --tp 4 --pp 2 --sharding zero1 --explain collective --db :memory:
