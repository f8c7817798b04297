plan --model llama-70b --gpus 256 --db :memory:
