#include "hwdb/runs/recorded_model.h"

#include <gtest/gtest.h>

#include <string>

#include "hwdb/runs/run_record.h"
#include "sim/model/parameters.h"

namespace llmsim::hwdb {
namespace {

sim::Transformer read(const RecordedModel& model) {
  RunRecord record;
  record.model = model;
  sim::Run run;
  Assumptions assume(record, run);
  return model_of(record, {}, assume);
}

RecordedModel named(const std::string& name) {
  RecordedModel model;
  model.name = name;
  model.fields["seq_len"] = 2048;
  return model;
}

// As the throughput tables of llm-foundry describe their models: learned positions, and no word on
// biases.
RecordedModel in_tables(const std::string& name, int num_layers, int hidden_size, int num_heads) {
  RecordedModel model = named(name);
  model.fields["num_layers"] = num_layers;
  model.fields["hidden_size"] = hidden_size;
  model.fields["num_heads"] = num_heads;
  model.fields["vocab_size"] = 50368;
  model.fields["position"] = "learned";
  return model;
}

TEST(RecordedModel, ANameMeansTheModelOfTheFamilyWithTheRecordedPositions) {
  EXPECT_EQ(sim::parameters(read(in_tables("mpt-7b", 32, 4096, 32))).total(), 6'658'859'008);
  EXPECT_EQ(sim::parameters(read(in_tables("mpt-30b", 48, 7168, 56))).total(), 29'975'214'080);
  EXPECT_EQ(sim::parameters(read(named("mpt-7b"))).total(), 6'649'286'656);
}

}  // namespace
}  // namespace llmsim::hwdb
