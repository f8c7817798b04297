predict --model llama-3-8b --gpus 64 --hardware a100 --system dgx_a100 --sharding zero3 --stack torchtitan --global-batch 64 --db :memory:
