#!/usr/bin/env python3
"""Training steps of Hugging Face models in plain PyTorch, timed: hugging_face_steps.py OUTPUT [SECONDS].

One JSON object a line.  Nine steps each, the first three to warm up; peaks are those of the last six.
"pure" has weights, gradients and AdamW's states in bf16, the others fp32 weights under autocast.
"""
import gc
import json
import sys
import time

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


def gpt2(layers, hidden, heads, vocab=50257):
    return GPT2LMHeadModel, GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, vocab_size=vocab,
                                       resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)


def llama(layers, hidden, ffn, heads, kv_heads, vocab):
    return LlamaForCausalLM, LlamaConfig(
        num_hidden_layers=layers, hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads,
        num_key_value_heads=kv_heads, vocab_size=vocab, max_position_embeddings=32768, use_cache=False,
        tie_word_embeddings=False)


MODELS = {
    "gpt2": gpt2(12, 768, 12), "gpt2-medium": gpt2(24, 1024, 16), "gpt2-large": gpt2(36, 1280, 20),
    "gpt2-xl": gpt2(48, 1600, 25), "gpt2-50304": gpt2(12, 768, 12, 50304),
    "gpt2-xl-50304": gpt2(48, 1600, 25, 50304),
    "llama-3.1-8b": llama(32, 4096, 14336, 32, 8, 128256),
    "llama-3.1-8b-l4": llama(4, 4096, 14336, 32, 8, 128256),
    "llama-3.1-8b-l2": llama(2, 4096, 14336, 32, 8, 128256),
    "llama-2-7b": llama(32, 4096, 11008, 32, 32, 32000),
    "llama-2-7b-l8": llama(8, 4096, 11008, 32, 32, 32000),
    "llama-3-70b-l1": llama(1, 8192, 28672, 64, 8, 128256),
    "qwen-like": llama(28, 1024, 3072, 16, 8, 151936)}

PURE, RECOMPUTED, COMPILED = {"pure": 1}, {"ckpt": 1}, {"compile": 1}
CASES = [  # model, tokens of a sequence, sequences, choices
    ("gpt2", 1024, 16, {}), ("llama-3.1-8b-l4", 4096, 2, PURE), ("gpt2-xl", 1024, 4, {}),
    ("llama-2-7b-l8", 4096, 1, {}), ("gpt2-medium", 1024, 8, {}), ("gpt2-large", 1024, 8, {}),
    ("llama-3.1-8b-l4", 4096, 1, {}), ("gpt2", 1024, 16, RECOMPUTED),
    ("gpt2-xl", 1024, 8, RECOMPUTED), ("llama-2-7b-l8", 4096, 2, PURE | RECOMPUTED),
    ("llama-3.1-8b-l2", 16384, 1, PURE | RECOMPUTED), ("llama-3-70b-l1", 4096, 1, PURE),
    ("gpt2", 1024, 4, {}), ("gpt2", 1024, 32, {}), ("gpt2-large", 1024, 16, {}),
    ("gpt2", 1024, 16, COMPILED), ("llama-3.1-8b", 4096, 1, PURE | RECOMPUTED),
    ("gpt2-50304", 1024, 16, {}), ("gpt2-xl-50304", 1024, 4, {}),
    ("llama-2-7b", 4096, 2, PURE | RECOMPUTED), ("llama-3.1-8b", 8192, 1, PURE),
    ("gpt2-50304", 1024, 4, {}), ("gpt2-50304", 1024, 64, {}), ("llama-2-7b", 4096, 2, PURE),
    ("qwen-like", 2048, 4, {}), ("llama-3.1-8b-l4", 8192, 1, {}),
    ("llama-3.1-8b-l4", 4096, 2, PURE | COMPILED), ("gpt2-50304", 1024, 16, COMPILED)]


def train(model, optimizer, tokens, pure):
    with torch.autocast("cuda", torch.bfloat16, enabled=not pure):
        loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def measure(name, seq_len, micro_batch, choices):
    kind, config = MODELS[name]
    config._attn_implementation = "sdpa"
    pure = bool(choices.get("pure"))
    torch.cuda.empty_cache()
    torch.set_default_dtype(torch.bfloat16 if pure else torch.float32)
    with torch.device("cuda"):
        model = kind(config).train()
    torch.set_default_dtype(torch.float32)
    if choices.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    called = torch.compile(model) if choices.get("compile") else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, config.vocab_size, (micro_batch, seq_len), device="cuda")
    times = []
    for step in range(9):
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = train(called, optimizer, tokens, pure)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        if step == 2:
            torch.cuda.reset_peak_memory_stats()
    peaks = torch.cuda.memory_stats()
    return {"outcome": "ok", "step_time_s": sorted(times[3:])[3], "times": times,
            "parameters": sum(p.numel() for p in model.parameters()), "loss": loss.item(),
            **{key: peaks[key + "_bytes.all.peak"] for key in ("allocated", "reserved", "requested")}}


def main():
    torch.backends.cuda.matmul.allow_tf32 = True
    deadline = time.time() + (float(sys.argv[2]) if len(sys.argv) > 2 else 1e9)
    with open(sys.argv[1], "w") as output:
        for name, seq_len, micro_batch, choices in CASES:
            if time.time() > deadline:
                break
            record = {"model": name, "seq_len": seq_len, "micro_batch": micro_batch, **choices,
                      "torch": torch.__version__, "transformers": transformers.__version__}
            try:
                record.update(measure(name, seq_len, micro_batch, choices))
            except torch.cuda.OutOfMemoryError:
                record.update(outcome="oom")
            gc.collect()
            print(json.dumps(record), file=output, flush=True)


if __name__ == "__main__":
    main()
