export EXECUTABLE="train"
export LIBTPU_INIT_ARGS="--xla_tpu_enable_async_collective_fusion=true"
python3 -m maxtext.trainers.pre_train.$EXECUTABLE "${MAXTEXT_CONFIGS_DIR:-configs}"//base.yml model_name=llama2-70b\
  base_output_directory=$OUTPUT_PATH dataset_path=${DATASET_PATH}\
  per_device_batch_size=2 remat_policy=qkv_proj_offloaded\
  steps=15 enable_checkpointing=false use_iota_embed=true
