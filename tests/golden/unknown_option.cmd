plan --model llama-70b --gpu 256
