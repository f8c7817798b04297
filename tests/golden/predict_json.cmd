predict --model gpt2-xl --gpus 8 --hardware h100 --framework ddp --global-batch 64 --micro-batch 8 --format json --db :memory:
