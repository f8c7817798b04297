models show llama-3-70b
