export EXECUTABLE="train"
python3 -m maxtext.trainers.pre_train.$EXECUTABLE "${MAXTEXT_CONFIGS_DIR:-configs}"/base.yml\
    steps=15 per_device_batch_size=3 enable_checkpointing=false\
    remat_policy=minimal global_parameter_scale=64\
    ici_fsdp_parallelism=-1 ici_tensor_parallelism=4\
    max_target_length=2048 dataset_type=synthetic attention='flash' quantization=""
