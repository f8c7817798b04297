predict --model gpt2-xl --gpus 4 --hardware h100 --framework megatron-lm --pp 4 --global-batch 8 --micro-batch 2 --memory-timeline --format csv --db :memory:
