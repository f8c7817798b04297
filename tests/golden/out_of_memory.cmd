predict --model llama-3-70b --gpus 8 --tp 8 --framework megatron-lm --global-batch 8 --format markdown --db :memory:
