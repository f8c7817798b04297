predict --model llama-3-70b --gpus 1024 --tp 8 --sharding zero1 --global-batch 1024 --recompute full --tokens 15T --price 2 --ramp-up 256:100B
  --async-checkpoint --db :memory:
