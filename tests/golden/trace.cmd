trace --model gpt2 --gpus 4 --pp 2 --tp 2 --hardware h100 --framework megatron-lm --global-batch 2 --micro-batch 1
--schedule zb-h1 --no-operators --db :memory:
