predict --model llama-3-70b --gpus 8 --tp 3 --db :memory:
