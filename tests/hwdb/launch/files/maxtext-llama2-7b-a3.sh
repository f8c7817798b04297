export EXECUTABLE="train"
python3 -m MaxText.$EXECUTABLE "${MAXTEXT_CONFIGS_DIR:-configs}"/models/gpu/llama2_7b.yml run_name=$RUN_NAME \
    dcn_data_parallelism=16 ici_fsdp_parallelism=8 base_output_directory=$OUTPUT_PATH profiler=xplane
