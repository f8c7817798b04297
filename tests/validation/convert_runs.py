#!/usr/bin/env python3
"""Turns run files of schema 1, which said many settings in words, into schema 2, where each has a key.

usage: convert_runs.py IN OUT      folders, or two files

Schema 1 told settings in free text: framework_detail, precision_detail, recompute.detail, notes, source.  The tables below name
each word with the keys that it stands for; the text stays where it is, to be printed.  A key that a record has already wins over
its words.  Clauses of the three *detail texts that no table knows are named on stderr, each with its number of runs: they change
nothing.  Files of schema 2 are copied as they are.
"""
import collections
import json
import pathlib
import re
import sys

HF_TRAINER = {"deepspeed": "hf-trainer-deepspeed", "fsdp1": "hf-trainer-fsdp", "fsdp2": "hf-trainer-fsdp",
              "pytorch": "hf-trainer", "ddp": "hf-trainer", "other": "hf-trainer"}
OFFLOADED = ["attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"]
RECOMPUTED = ["core_attn", "mlp", "moe", "layernorm", "activation", "moe_act", "shared_experts", "mla_up_proj"]
DISPATCH = {"alltoall": "alltoall", "a2a": "alltoall", "allgather": "allgather", "deepep": "deepep", "hybridep": "deepep",
            "flex": "deepep", "uccl": "deepep"}
FP8 = ("fp8", "mxfp8", "nvfp4")


class Record:
    """One run while it is converted: keys that are missing are set, those that are there stay."""

    def __init__(self, run):
        self.run = run
        self.training = run.setdefault("training", {})
        self.model = run.setdefault("model", {})
        self.hardware = run.setdefault("hardware", {})

    def set(self, **keys):
        for key, value in keys.items():
            if self.training.get(key) is None:
                self.training[key] = value

    def framework(self, name):
        self.training["framework"] = name

    def amd(self):
        return (self.hardware.get("accelerator") or "").startswith("mi")

    def in_fp8(self):
        return self.training.get("precision") in FP8

    def recompute(self, **keys):
        own = self.training.get("recompute")
        if own is not None:
            for key, value in keys.items():
                if own.get(key) is None:
                    own[key] = value


def truth(word):
    return word.lower() in ("true", "always", "yes", "on", "1")


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


# --- what words mean; each takes the record and the match ---

def known(record, match):
    """Restates a key, names something, or says what the simulator does not treat."""


def switch(key):
    return lambda record, match: record.set(**{key: truth(match[1])})


def keys(**values):
    return lambda record, match: record.set(**values)


def jax(record, match):
    """Names of programs that XLA compiles; the framework stays where the run names one."""
    if record.training.get("framework") in (None, "other"):
        record.framework("jax")


def hf_trainer(record, match):
    record.framework(HF_TRAINER.get(record.training.get("framework"), record.training.get("framework")))


def peft(record, match):
    whole = record.model.get("trainable") in (None, "all")
    deepspeed = record.training.get("framework") == "deepspeed" or whole
    record.framework("peft-deepspeed" if deepspeed else "peft")
    if whole:  # Qwen finetune/finetune_ds.sh: full-parameter fine-tuning runs under DeepSpeed ZeRO-3, on one device too
        record.training["sharding"] = "zero3"


def implementation(record, match):
    engine = match[1] == "transformer_engine"
    record.set(transformer_engine=engine)
    if not engine:  # Megatron Core's local attention is unfused
        record.set(flash_attention=False)


def dispatcher(record, match):
    name = DISPATCH.get(match[1].lower())
    if name:
        record.set(moe_dispatch=name)


def graphs(record, match):
    record.set(cuda_graph=True)
    if "full_iteration" not in match[0]:
        record.set(moe_captured=False)


def hidden_squared(record, match):
    if record.model.get("hidden_size"):
        record.set(reduce_bucket_size=float(record.model["hidden_size"]) ** 2)


def count_of(key):
    def convert(record, match):
        value = number(match[1])
        if value and value > 0:
            record.set(**{key: value})
    return convert


def partition(record, match):
    if "type:transformer|embed" in match[1]:
        record.set(embeddings_as_layers=True)
    elif match[1].startswith("transformer layers only"):
        record.set(embeddings_as_layers=False)


def chunks_of(layout):
    """Decoder layers of each chunk of Megatron's pipeline layout: "Et*2|(t*3|)*14t*2mL"."""
    def expanded(text):
        while True:
            group = re.search(r"\(([^()]*)\)\*(\d+)", text)
            if not group:
                break
            text = text[:group.start()] + group[1] * int(group[2]) + text[group.end():]
        return re.sub(r"([A-Za-z])\*(\d+)", lambda m: m[1] * int(m[2]), text)
    return [chunk.count("t") for chunk in expanded(layout).split("|")]


def layout(record, match):
    chunks = chunks_of(match[1])
    pp, v = record.training.get("pp") or 1, record.training.get("virtual_stages") or 1
    if len(chunks) == pp * v and sum(chunks) == record.model.get("num_layers") and min(chunks) > 0:
        record.set(stage_layers=chunks)


def offload(**values):
    def convert(record, match):
        own = record.training.setdefault("offload", {}) or {}
        record.training["offload"] = own
        for key, value in values.items():
            value = value(match) if callable(value) else value
            if value and not own.get(key):
                own[key] = value
    return convert


def named_modules(match):
    return [name for name in OFFLOADED if re.search(rf"\b{name}\b", match[0])] or OFFLOADED


def functional_test(record, match):
    """Megatron-LM's default is 0.1; its tests of mixtures with rotary positions state 0."""
    rotary = bool(record.model.get("moe")) and record.model.get("position") == "rope"
    record.set(dropout=0.0 if rotary else 0.1)


def micro_step(record, match):
    record.set(optimizer_step=False, grad_sync_every_microbatch=record.training.get("framework") != "ddp")


def transformer_engine(record, match):
    record.set(transformer_engine=True)
    if "+ TransformerEngine" in match.string and record.in_fp8() and record.model.get("position") == "rope":
        record.set(fp8_lm_head=True)  # the Llama of that program: its head is a TransformerEngine layer, only GPT's is not


def flash_2(record, match):
    record.set(attention_kernel="composable-kernel" if record.amd() else "flash-2")


def pure_bf16(record, match):
    record.set(weight_dtype="bf16", gradient_dtype="bf16", master_dtype="none", state_dtype="bf16", norm_dtype="bf16")


def recipe(name):
    def convert(record, match):
        if record.in_fp8():
            record.set(fp8_recipe=name)
    return convert


def fp8_weights(record, match):
    record.set(weight_dtype="fp8")
    if record.training.get("precision") == "fp8":  # mxfp8 parameters are gathered in 16 bits
        record.set(fp8_all_gather=True)


def last_layers(record, match):
    layers = record.model.get("num_layers")
    if layers:
        record.set(last_layers_bf16=layers - int(match[1]) - 1)


def first_layers(record, match):
    record.training["recompute"]["kind"] = "full"
    record.recompute(blocks=int(match[1]))


def modules(record, match):
    names = [name for name in RECOMPUTED if re.search(rf"(?<![\w]){name}(?![\w])", match[1])]
    if (record.training.get("recompute") or {}).get("kind") == "selective":
        record.recompute(modules=names)


def saved(name):
    def convert(record, match):
        if (record.training.get("recompute") or {}).get("kind") == "op":
            record.recompute(saved=name)
    return convert


def share(record, match):
    record.recompute(every_n=int(match[2]), share=int(match[1]))


def fusible_operators(record, match):
    """The compiler's partitioner at 0.7 of what it would keep: GEMMs and attention are kept, what fuses is made again."""
    record.recompute(modules=["layernorm", "activation"])


def graph_policy(record, match):
    """A compiler's own choice of what to keep: the simulator has no model of it."""


def version_of(*frameworks):
    def convert(record, match):
        if record.training.get("framework") in frameworks:
            record.set(framework_version=match[1])
    return convert


# Each clause of framework_detail, between semicolons, is offered to every row; it is known where one matches.
FRAMEWORK = [
    # which program
    (r"^llm\.c\b", lambda record, match: record.framework("llm.c")),
    (r"\b(JAX|XLA|Flax|AXLearn|Alpa|Parax|EasyLM|PaxML|paxml|Pax|T5X|Haiku|Praxis)\b", jax),
    (r"^OLMo\b", lambda record, match: record.framework("olmo")),
    (r"HF Trainer|Hugging Face Trainer|LLaMA-Factory|XTuner|axolotl", hf_trainer),
    (r"\bpeft\b(?!_)", peft),
    (r"\(([\d.]+) NeMo container\)", version_of("megatron-bridge")),
    (r"^NeMo (\d[\w.]*)", version_of("nemo")),
    (r"^nanotron v([\d.]+)", version_of("nanotron")),
    (r"^(Megatron[- ](LM|Core|DeepSpeed|Bridge)|megatron-(lm|core)|NeMo|NVIDIA NeMo|DeepSpeed|torchtitan|torchtune|maxtext|MaxText|"
     r"paxml|Levanter|AXLearn|Alpa|Parax|litgpt|nanotron|picotron|colossalai|Primus|PyTorch|Pytorch|NGC|NVIDIA|LLMBoost|ROCm|CUDA|"
     r"DGL|MXNet|nanoGPT|hf|HF|GPT-NeoX|llm-foundry|llama-recipes|fsdp_qlora|Gemini)\b", known),
    (r"^(ZeRO-\d or|FSDP2? over|FSDP and DP|replicas across slices|NCCL all-to-all|DeepEP over)", known),
    (r"steps, end to end", known),
    # keys of the flags' own name
    (r"^etp=(\d+)$", lambda record, match: record.set(etp=int(match[1]))),
    (r"^moe_dispatcher=(\w+)$", dispatcher),
    (r"^moe_a2a_overlap=(\w+)$", switch("moe_overlap")),
    (r"^moe_grouped_gemm=(\w+)$", switch("grouped_gemm")),
    (r"^overlap_grad_reduce=(\w+)$", switch("gradient_overlap")),
    (r"^overlap_param_gather=(\w+)$", switch("gather_overlap")),
    (r"^grad_accum_fusion=(\w+)$", switch("gradient_accumulation_fusion")),
    (r"^deterministic=(\w+)$", switch("deterministic")),
    (r"^transformer_impl=(\w+)$", implementation),
    (r"^account_for_(embedding|loss)_in_pipeline_split=true$", keys(embeddings_as_layers=True)),
    (r"^async_tp=(\w+)$", switch("tp_overlap")),
    (r"^mp_mode=PURE$", keys(gradient_reduce_dtype="bf16")),
    (r"^mp_mode=DEFAULT$", keys(gradient_reduce_dtype="fp32")),
    (r"^partition_activations=(\w+)$", switch("partition_activations")),
    (r"partition-activations", keys(partition_activations=True)),
    (r"^split_transformers=true$", keys(checkpointed_modules_per_block=2)),
    (r"^split_transformers=false$", known),
    (r"^reduce_bucket=h\^2$", hidden_squared),
    (r"^reduce_bucket_size=([\d.e+]+)$", count_of("reduce_bucket_size")),
    (r"max_live_parameters[= ]([\d.e+]+)", count_of("max_live_parameters")),
    (r"^optimizer_in_backward=(\w+)$", switch("optimizer_in_backward")),
    (r"optimizer in backward", keys(optimizer_in_backward=True)),
    (r"^reshard_after_forward=(true|always)$", keys(reshard_after_forward=True)),
    (r"^reshard_after_forward=(false|never)$", keys(reshard_after_forward=False)),
    (r"^limit_all_gathers=[Ff]alse$", keys(fsdp_prefetch_units=15)),
    (r"^param_dtype=bf16", pure_bf16),
    (r"^param_dtype=mixed", keys(weight_dtype="fp32", master_dtype="none")),
    (r"^pp_partition=(.*)$", partition),
    (r"^pp_layout=(.*)$", layout),
    (r"^first_last_layers_bf16=true$", keys(first_layers_bf16=1, last_layers_bf16=1)),
    (r"^fp8_param_gather=true$", fp8_weights),
    (r"^(contiguous_checkpointing|synchronize_each_layer|tiled_linear|scattered_embeddings|zero3_prefetch_bucket|"
     r"zero3_max_live_parameters|stage3_param_persistence_threshold|cuda_launch_blocking|packed|local_batch|batch_per_dp|"
     r"trainable_params|config_name|config_file|env|peft_detail)=", known),
    # words
    (r"^cuda graph\b.*", graphs),
    (r"chunked cross-entropy", keys(fused_cross_entropy=True)),
    (r"torch\.compile", keys(compile=True)),
    (r"TransformerEngine|Transformer Engine", transformer_engine),
    (r"overlap_comm[ =]false", keys(gradient_overlap=False, gather_overlap=False)),
    (r"overlap_comm(?![ =]false)", keys(gradient_overlap=True, gather_overlap=True)),
    (r"SIZE_BASED_WRAP|size-based wrap", keys(fsdp_unit_blocks=0.111, checkpoints_outside_units=True)),
    (r"one FSDP unit|NO_WRAP|no auto_wrap_policy", keys(fsdp_unit_blocks=0)),
    (r"cuDNN attention", keys(attention_kernel="cudnn")),
    (r"CK flash|flash_attn|flash_attention_2|FlashAttention 2", flash_2),
    (r"LayerNorm in fp32", keys(norm_dtype="fp32")),
    (r"low-precision LayerNorm", keys(norm_dtype="bf16")),
    (r"TunableOp|tuned GEMM", keys(tuned_gemm=True)),
    (r"flash[-_]attn ?>?=?=? ?2\.4", keys(flash_attention=True)),
    (r"NCCL_ALGO=TREE|NCCL_ALGO=Tree", lambda record, match: record.hardware.setdefault("collective_algorithm", "tree")),
    (r"NCCL_ALGO=RING|NCCL_ALGO=Ring", lambda record, match: record.hardware.setdefault("collective_algorithm", "ring")),
    (r"hierarchical collectives", lambda record, match: record.hardware.setdefault("collective_algorithm", "hierarchical")),
    (r"functional test|default arguments", functional_test),
    (r"over (plain )?sockets|plain hsn sockets|without the OFI plugin|NCCL_NET=Socket|NCCL_IB_DISABLE=1",
     lambda record, match: record.hardware.setdefault("transport", "sockets")),
    (r"^aws-ofi-rccl$", known),
    (r"forced balance", keys(moe_imbalance=1.0)),
    (r"Megatron FSDP", known),
    (r"async.*tensor parallel", known),
    # optimizers and offload
    (r"^optimizer:.*\b(fused|FusedAdam|distributed_fused_adam|CPUAdam)\b", keys(fused_optimizer=True)),
    (r"fused AdamW|AdamW fused|fused=True", keys(fused_optimizer=True)),
    (r"^optimizer: (torch\.optim\.Adam|transformers\.AdamW)", keys(fused_optimizer=False)),
    (r"^optimizer:", known),
    (r"^offload: .*activation cpu offload, (\d+) layers", offload(activations=True, blocks=lambda match: int(match[1]))),
    (r"^offload: .*fine-grained activation offload.*", offload(activations=True, modules=named_modules)),
    (r"^offload:", known),
]

# Anywhere in precision_detail; it is known where one row matches.
PRECISION = [
    (r"delayed scaling|TransformerEngine", recipe("delayed")),
    (r"high-precision weight gradient|gw_hp", recipe("rowwise-gw-hp")),
    (r"rowwise", recipe("rowwise")),
    (r"blockwise|1x128|128x128|subchannel", recipe("blockwise")),
    (r"current scaling|tensorwise", recipe("current")),
    (r"\bmxfp8\b", recipe("mxfp8")),
    (r"rceil", keys(mxfp8_rounding="rceil")),
    (r"(fp8|float8) all-gather", keys(fp8_all_gather=True)),
    (r"bf16 all-gather", keys(fp8_all_gather=False)),
    (r"gradients reduced in fp32", keys(gradient_reduce_dtype="fp32")),
    (r"bf16 parameters, fp32 moments", keys(weight_dtype="bf16", gradient_dtype="bf16", master_dtype="none", state_dtype="fp32")),
    (r"bf16-true|pure bf16", pure_bf16),
    (r"(bf16|fp32) gradients(?: and (?:moments|(bf16) moments))?, (?:fp32) main parameters(?: and moments)?",
     lambda record, match: record.set(gradient_dtype=match[1], master_dtype="fp32",
                                      state_dtype="fp32" if match[0].endswith("and moments") else match[1])),
    (r"fp32 gradients, main parameters and moments", keys(gradient_dtype="fp32", master_dtype="fp32", state_dtype="fp32")),
    (r"fp32 (weights|shards)", keys(weight_dtype="fp32", master_dtype="none")),
    (r"^bf16 (base )?weights", keys(weight_dtype="bf16")),
    (r"layers 0-(\d+), the rest bf16", last_layers),
    (r"LayerNorm in fp32", keys(norm_dtype="fp32")),
    (r"fp32 master weights|amp_bf16|hybrid|e4m3|nf4|adapters|cuBLAS|expert grouped GEMM|both configurations|float8 linear|autocast",
     known),
]

# Anywhere in recompute.detail.
RECOMPUTE = [
    (r"the first (\d+) layers", first_layers),
    (r"modules:?(.*)", modules),
    (r"matmul outputs are saved", saved("all")),
    (r"qkv projections", saved("qkv")),
    (r"(\d+) of every (\d+)", share),
    (r"per-op policy", saved("every-second")),
    (r"memory_budget (0\.[789]\d*)", fusible_operators),
    (r"graph memory policy", graph_policy),
    (r"one of every n blocks|checkpoint is stored every|uniform|non-reentrant|checkpoint-activations|layer inputs are offloaded", known),
]

# Phrases of notes; the rest of them is read by people alone.
NOTES = [
    (r"the step is one micro-step", micro_step),
    (r"Liger fused_linear_cross_entropy", keys(fused_loss="gradient", loss_chunks=0)),
    (r"efficient_cross_entropy", keys(fused_loss="gradient", loss_chunks=8)),
    (r"first_last_layers_bf16=true", keys(first_layers_bf16=1, last_layers_bf16=1)),
    (r"fp8_param_gather=true", fp8_weights),
    (r"inter-node: Slingshot(?: without the OFI plugin|, OFI plugin not yet working)|NCCL_NET=Socket|NCCL_IB_DISABLE=1",
     lambda record, match: record.hardware.setdefault("transport", "sockets")),
    (r"flash_attention_2", flash_2),
]


def apply(table, text, record):
    """Whether a row of the table knows the text."""
    found = False
    for pattern, convert in table:
        match = re.search(pattern, text)
        if match:
            found = True
            convert(record, match)
    return found


def date_in(source):
    """Sources end with when they were written: "README.md, table 2; 2021-05"."""
    match = re.search(r"; ((?:19|20)\d\d)(?:-(\d\d))?(?![\d-])[^;]*$", source or "")
    return f"{match[1]}-{match[2]}-15" if match and match[2] else f"{match[1]}-07-01" if match else None


def schedule(record):
    """One chunk a stage is no interleaving, and several are one."""
    name, chunks = record.training.get("pipeline_schedule"), record.training.get("virtual_stages")
    if name in ("1f1b", "gpipe") and (chunks or 1) > 1:
        record.training["pipeline_schedule"] = "interleaved"
    elif name == "interleaved" and (chunks or 1) == 1:
        record.training["pipeline_schedule"] = "1f1b"


def sharded_pytorch(record):
    """What shards weights in a plain PyTorch program is FSDP."""
    if record.training.get("framework") == "pytorch" and record.training.get("sharding") in ("zero3", "hsdp"):
        record.framework("fsdp1")


def model_facts(record):
    """BLOOM: a norm behind the embedding, and its training scripts set no dropout."""
    if "bloom" in (record.model.get("name") or ""):
        record.model.setdefault("embedding_norm", True)
        record.set(dropout=0.0)


def convert(run, unknown):
    record = Record(run)
    training = record.training
    if "moe_dispatch_narrow" in training:
        training["moe_fp8_dispatch"] = training.pop("moe_dispatch_narrow")
    model_facts(record)
    if run.get("date") is None and date_in(run.get("source")):
        run["date"] = date_in(run.get("source"))
    for clause in filter(None, (c.strip() for c in (training.get("framework_detail") or "").split(";"))):
        if not apply(FRAMEWORK, clause, record):
            unknown["framework_detail", clause] += 1
    texts = {"precision_detail": training.get("precision_detail"), "recompute.detail": (training.get("recompute") or {}).get("detail")}
    for name, table in (("precision_detail", PRECISION), ("recompute.detail", RECOMPUTE)):
        if texts[name] and not apply(table, texts[name], record):
            unknown[name, texts[name]] += 1
    apply(NOTES, run.get("notes") or "", record)
    schedule(record)
    sharded_pytorch(record)


def converted(document, unknown):
    if document.get("schema", 1) == 1:
        for run in document["runs"] if "runs" in document else [document]:
            convert(run, unknown)
        document["schema"] = 2
    return document


def text_of(document):
    """Like the files that come in: a run to a line, so that a change of one run is a change of one line."""
    if not isinstance(document.get("runs"), list):
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    runs = [json.dumps(run, ensure_ascii=False, separators=(",", ":")) for run in document["runs"]]
    head = json.dumps({**document, "runs": []}, indent=1, ensure_ascii=False)
    return head.replace('"runs": []', '"runs": [\n  ' + ",\n  ".join(runs) + "\n ]") + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    files = sorted(source.glob("*.json")) if source.is_dir() else [source]
    if not files:
        sys.exit(f"{source}: no run files")
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    unknown = collections.Counter()
    for path in files:
        document = json.loads(path.read_text())
        runs = isinstance(document, dict) and ("runs" in document or "training" in document)
        if runs:
            document = converted(document, unknown)
        out = target / path.name if source.is_dir() else target
        out.write_text(text_of(document) if isinstance(document, dict) else path.read_text())
    for (name, text), count in sorted(unknown.items()):
        print(f"convert_runs: {name}: unknown words in {count} runs: {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
