#include "sim/model/transformer.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/base/error.h"
#include "tests/catalogue.h"

namespace llmsim::sim {
namespace {

// A model with all objects and every value that may be none.
Transformer full() {
  Transformer model;
  model.sliding_window = 8;
  model.moe.emplace();
  model.mla = Mla{.q_lora_rank = 4};
  model.encoder.emplace();
  return model;
}

// A value of a field that the full model does not have.
FieldValue other_value(const TransformerField& field) {
  switch (field.kind) {
    case FieldKind::Switch: return field.get(full()) != FieldValue(true);
    case FieldKind::Word: return field.words.empty() ? "M*" : field.words.back();
    case FieldKind::Number: return field.least + 0.5;
    default: return std::int64_t{3};
  }
}

TEST(TransformerFields, NoKeyStandsTwice) {
  std::set<std::string> keys;
  for (const TransformerField& field : transformer_fields()) keys.insert(field.key);
  EXPECT_EQ(keys.size(), transformer_fields().size());
}

TEST(TransformerFields, EveryFieldChangesTheModelAndIsReadBack) {
  for (const TransformerField& field : transformer_fields()) {
    Transformer model = full();
    put(transformer_fields(), {{field.key, other_value(field)}}, model);
    EXPECT_NE(model, full()) << field.key;
    EXPECT_EQ(field.get(model), other_value(field)) << field.key;
  }
}

TEST(TransformerFields, AModelIsMadeOfItsFields) {
  for (const char* name : {"deepseek-v3", "gemma-2-9b", "bert-large", "nemotron-3-super",
                           "qwen3-next", "jamba-mini"}) {
    const Transformer& model = find_model(name)->model;
    Transformer copy{.name = model.name};
    put(transformer_fields(), fields_of(model), copy);
    EXPECT_EQ(copy, model) << name;
  }
}

TEST(TransformerFields, AFieldMakesItsObject) {
  Transformer model;
  EXPECT_FALSE(states_object(fields_of(model), "moe"));
  put(transformer_fields(), {{"moe.top_k", 2}}, model);
  ASSERT_TRUE(model.moe);
  EXPECT_EQ(model.moe->top_k, 2);
  EXPECT_TRUE(states_object(fields_of(model), "moe"));
  EXPECT_FALSE(states_object(fields_of(model), "mla"));
}

TEST(TransformerFields, UnknownKeysAndValuesOutOfRangeAreRefused) {
  Transformer model;
  EXPECT_THROW(put(transformer_fields(), {{"layers", 2}}, model), Error);
  EXPECT_THROW(put(transformer_fields(), {{"num_layers", 0}}, model), Error);
  EXPECT_THROW(put(transformer_fields(), {{"norm", "batchnorm"}}, model), Error);
  EXPECT_EQ(model, Transformer{});
}

}  // namespace
}  // namespace llmsim::sim
