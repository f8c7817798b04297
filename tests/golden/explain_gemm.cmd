predict --model llama-3-8b --gpus 8 --sharding zero3 --recompute full --explain gemm --db :memory:
