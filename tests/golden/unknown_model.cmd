plan --model lama-70b --gpus 256
