predict --model gpt2-xl --gpus 4 --hardware h100 --pp 4 --memory-timeline --memory-stage 4 --db :memory:
