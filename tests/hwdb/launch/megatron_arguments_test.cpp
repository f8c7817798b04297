// Argument sets as Megatron-LM's own functional tests have them
// (NVIDIA/Megatron-LM tests/functional_tests/test_cases), kind by kind.
#include <gtest/gtest.h>

#include <string>

#include "hwdb/launch/launch_file.h"
#include "sim/base/error.h"
#include "tests/error_of.h"
#include "tests/hwdb/launch/shipped_resolver.h"

namespace llmsim::hwdb {
namespace {

RunRecord record_of_arguments(const std::string& arguments) {
  const std::string shape = "--num-layers 6 --hidden-size 512 --num-attention-heads 8 ";
  return parse_launch("pretrain_gpt.py " + shape + arguments, "a.sh").record;
}

std::string model_value(const RunRecord& record, const std::string& key) {
  const auto found = record.model.fields.find(key);
  return found == record.model.fields.end() ? "" : sim::text_of(found->second);
}

std::string value_of(const RunRecord& record, const std::string& key) {
  const auto found = record.training.strategy.find(key);
  return found == record.training.strategy.end() ? "" : sim::text_of(found->second);
}

std::string setting_of(const RunRecord& record, const std::string& key) {
  const auto found = record.training.settings.find(key);
  return found == record.training.settings.end() ? "" : sim::text_of(found->second);
}

const std::string kNet = "--experimental-attention-variant gated_delta_net ";

TEST(MegatronArguments, OfLinearAttentionEveryFewLayersHaveSoftmax) {
  const RunRecord record = record_of_arguments(
      kNet +
      "--linear-attention-freq 3 --linear-conv-kernel-dim 4 --linear-key-head-dim 64 "
      "--linear-value-head-dim 64 --linear-num-key-heads 4 --linear-num-value-heads 8 "
      "--attention-output-gate --swiglu --ffn-hidden-size 1344");
  EXPECT_EQ(model_value(record, "layer_pattern"), "GG*");
  EXPECT_EQ(model_value(record, "gated_delta_net.num_key_heads"), "4");
  EXPECT_EQ(model_value(record, "gated_delta_net.num_value_heads"), "8");
  EXPECT_EQ(model_value(record, "gated_delta_net.key_head_dim"), "64");
  EXPECT_EQ(model_value(record, "attention_gate"), "true");
  EXPECT_EQ(model_value(record, "ffn_size"), "1344");  // every layer has an MLP, unlike a hybrid's
}

TEST(MegatronArguments, LinearLayersMayBeListedAsInPython) {
  const auto pattern = [](const std::string& layers) {
    return model_value(record_of_arguments(kNet + "--linear-attention-freq '" + layers + "'"),
                       "layer_pattern");
  };
  EXPECT_EQ(pattern("([1]*2+[0]*1)*2"), "GG*GG*");
  EXPECT_EQ(pattern("[1,1,1,0,0,1]"), "GGG**G");
  EXPECT_EQ(pattern("[1,0]*3"), "G*G*G*");
  EXPECT_EQ(pattern("([0]+[1]*5)"), "*GGGGG");
  EXPECT_EQ(pattern("1"), "*");
  EXPECT_NE(error_of([&] { pattern("([1]*2+[0]"); }).find(") is missing"), std::string::npos);
  EXPECT_NE(error_of([&] { pattern("[1,2]"); }).find("is expected"), std::string::npos);
  const std::string deep = std::string(5000, '(') + "1" + std::string(5000, ')');
  EXPECT_NE(error_of([&] { pattern(deep); }).find("is missing"), std::string::npos);
}

TEST(MegatronArguments, AnIndexerOfSparseAttentionIsPartOfTheModel) {
  const RunRecord record = record_of_arguments(
      "--multi-latent-attention --q-lora-rank 192 --kv-lora-rank 64 --qk-head-dim 16 "
      "--qk-pos-emb-head-dim 8 --v-head-dim 16 --experimental-attention-variant dsa "
      "--dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128 --dsa-indexer-topk 2048 "
      "--dsa-indexer-loss-coeff 0.01");
  EXPECT_EQ(model_value(record, "sparse_attention.num_heads"), "64");
  EXPECT_EQ(model_value(record, "sparse_attention.head_dim"), "128");
  EXPECT_EQ(model_value(record, "sparse_attention.top_k"), "2048");
  EXPECT_EQ(model_value(record, "layer_pattern"), "");
}

TEST(MegatronArguments, ListsOfModulesStandInBracketsOrWithout) {
  for (const char* modules : {"'[layernorm mlp]'", "layernorm mlp"}) {
    const RunRecord record = record_of_arguments(
        "--recompute-granularity selective --recompute-modules " + std::string(modules));
    EXPECT_EQ(value_of(record, "recompute.modules"), "mlp+layernorm") << modules;
  }
}

TEST(MegatronArguments, WhatOnlyFullyShardedRanksUseChangesNothingElsewhere) {
  const std::string parameters = "--data-parallel-sharding-strategy optim_grads_params ";
  EXPECT_EQ(value_of(record_of_arguments(parameters), "sharding"), "none");
  EXPECT_EQ(value_of(record_of_arguments(parameters + "--use-distributed-optimizer"), "sharding"),
            "zero1");
  EXPECT_EQ(value_of(record_of_arguments(parameters + "--use-megatron-fsdp "
                                                      "--use-distributed-optimizer "
                                                      "--num-distributed-optimizer-instances 1"),
                     "sharding"),
            "zero3");
}

TEST(MegatronArguments, MultiprocessorsOfAnExchangeAreThoseOfItsProgram) {
  const auto sms = [](const std::string& backend, const std::string& more) {
    return setting_of(record_of_arguments("--num-experts 8 --moe-token-dispatcher-type flex "
                                          "--moe-flex-dispatcher-backend " +
                                          backend + " " + more),
                      "moe_dispatch_sms");
  };
  const std::string both = "--moe-deepep-num-sms 18 --moe-hybridep-num-sms 32 ";
  EXPECT_EQ(sms("deepep", both), "18");
  EXPECT_EQ(sms("hybridep", both), "32");
  EXPECT_EQ(sms("hybridep", both + "--moe-flex-dispatcher-num-sms 24"), "24");
  EXPECT_EQ(sms("hybridep", "--moe-deepep-num-sms 18"), "");
  EXPECT_EQ(setting_of(
                record_of_arguments("--num-experts 8 --moe-token-dispatcher-type alltoall " + both),
                "moe_dispatch_sms"),
            "");
}

TEST(MegatronArguments, AHybridsPatternSaysItsChunksAndPredictedLayers) {
  const std::string sizes =
      "pretrain_mamba.py --hidden-size 1024 --num-attention-heads 16 --num-experts 8 "
      "--moe-ffn-hidden-size 512 --pipeline-model-parallel-size 2 --hybrid-layer-pattern ";
  const RunRecord record = parse_launch(sizes + "'M-M-*E|M-M*EM|ME|M*'", "a.sh").record;
  EXPECT_EQ(model_value(record, "layer_pattern"), "M-M-*EM-M*EMMEM*");
  EXPECT_EQ(model_value(record, "num_layers"), "16");
  EXPECT_EQ(value_of(record, "stage_layers"), "6,6,2,2");
  EXPECT_EQ(value_of(record, "virtual_stages"), "2");
  EXPECT_EQ(model_value(parse_launch(sizes + "MEM*E/*E/*E", "a.sh").record, "mtp_layers"), "2");
  EXPECT_NE(error_of([&] { parse_launch(sizes + "MEM*E/*-", "a.sh"); }).find("*-: not modelled"),
            std::string::npos);
}

TEST(MegatronArguments, ANumberOfLayersAloneRecomputesNothing) {
  EXPECT_EQ(value_of(record_of_arguments("--recompute-num-layers 1"), "recompute.kind"), "none");
}

// A workspace for each of four streams, unless experts run one after the other.
TEST(MegatronArguments, GemmsOfExpertsAreGroupedUnlessARunSaysOtherwise) {
  const auto streams = [](const std::string& framework, const Changes& changes) {
    return run_on("mixtral-8x7b", 16, framework, changes).framework.reserve.grouped_gemm_streams;
  };
  EXPECT_EQ(streams("megatron-lm", {}), 4);
  EXPECT_EQ(streams("megatron-lm", {{"grouped_gemm", true}}), 4);
  EXPECT_EQ(streams("megatron-lm", {{"grouped_gemm", false}}), 0);
  EXPECT_EQ(streams("megatron-bridge", {{"grouped_gemm", false}}), 0);
  EXPECT_EQ(streams("nanotron", {}), 0);
}

}  // namespace
}  // namespace llmsim::hwdb
