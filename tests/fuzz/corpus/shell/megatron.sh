#SBATCH --nodes=2 --gpus-per-node=8
TP=${1:-2}; LAYERS=$((TP * 8))
ARGS=(--num-layers $LAYERS --hidden-size 512 --num-attention-heads 8 --seq-length 1024)
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py "${ARGS[@]}" --tensor-model-parallel-size $TP \
  --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 --micro-batch-size 1 --global-batch-size 16 \
  --max-position-embeddings 1024 --vocab-size 1000 --make-vocab-size-divisible-by 128 --bf16 --use-distributed-optimizer \
  --num-experts 8 --moe-router-topk 2 --moe-layer-freq '([0]*1+[1]*15)' --swiglu
