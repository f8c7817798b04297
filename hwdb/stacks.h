// Training stacks: what frameworks keep, launch and overlap, and what they do where a run does not say.
//
// facts/stacks.json holds two lists.  A *stack* describes a framework by fields, each with its evidence and source; "like" takes
// over the fields of a stack that stands before it.  A *rule* changes fields for runs of a certain kind (an old version, fp32
// training, a position scheme without flash attention); all rules whose conditions hold apply, in the order of the file.  A
// condition names what any run can state, and holds for one of its values:
//
//   framework, precision, position, blocks, sharding, trainable   equal to it
//   accelerator                                                   begins with it: "mi3" for all of that family
//   model, framework_detail, precision_detail, notes              contains it: a flag, a version, the name of a library
//   words                                                         framework_detail or notes contain it
//   before                                                        the run's date is earlier
//
// Coefficients of scope "stack" in the database replace fields of a stack, not of a rule.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/database.h"
#include "sim/run.h"

namespace llmsim::hwdb {

// What decides how the software of a run behaves.  Empty: unknown.
struct StackQuery {
  std::string framework;  // id of a stack
  std::string model;      // name
  std::string date;       // "YYYY-MM-DD"
  std::string framework_detail;
  std::string precision;
  std::string precision_detail;
  std::string accelerator;
  std::string position;
  std::string blocks;  // "mixture" where the run describes experts, else "dense"
  std::string sharding;
  std::string trainable;  // "all", "lora", "adapter"
  std::string notes;
};

// What a stack does where a run's record is silent.
struct StackDefaults {
  bool flash_attention = true;
  bool sequence_parallel = false;  // where tensor_parallel > 1
  bool compile = false;
  bool fused_cross_entropy = false;
  bool tensor_overlap = false;
  bool gradient_overlap = true;
  bool gather_overlap = true;
  bool cuda_graph = false;
  sim::Sharding sharding = sim::Sharding::None;
  bool optimizer_step = true;  // false: a recorded step is a micro-step without optimizer
  sim::Transport transport = sim::Transport::Rdma;
  sim::CollectiveAlgorithm collective_algorithm = sim::CollectiveAlgorithm::Auto;
  sim::ContextScheme context_scheme = sim::ContextScheme::Ring;
  bool context_balanced = true;
  std::optional<bool> bias;     // linear layers have biases; none: as the kind of norm suggests
  bool embedding_norm = false;  // a norm after the embedding
};

struct StackChoice {
  sim::Stack stack;
  StackDefaults defaults;
  std::vector<sim::Fact> facts;  // one per field: "stack.<id>.<field>"
};

class Stacks {
 public:
  // Reads the text of stacks.json.  Throws Error naming the file, the stack or rule, and the key that is wrong.
  static Stacks parse(const std::string& text, const std::string& file);

  // The shipped stacks.
  static Stacks shipped();

  // The stack of a framework with all rules that apply.  Throws Error for an unknown framework, naming the nearest known one.
  StackChoice choose(const StackQuery& query) const;

  std::vector<std::string> ids() const;

  // The number that a stack, or one that it is like, has in a field; none where the field is not set or is no number.
  std::optional<double> number(const std::string& id, const std::string& key) const;

  // Replaces the field of a stack by a coefficient of scope "stack", for the stacks that are like it too unless they have their
  // own.  Throws Error for an unknown stack or field and for a value out of range.
  void put(const Coefficient& coefficient);

  struct Field {
    std::string key;
    std::string value;  // JSON text
    sim::Evidence evidence = sim::Evidence::Assumed;
    std::string source;
  };
  struct Record {
    std::string id;
    std::string name;
    std::string like;           // the stack whose fields hold where it has none; empty: none
    std::vector<Field> fields;  // its own
  };
  struct Condition {
    std::string key;
    std::vector<std::string> values;  // any of them
  };
  struct Rule {
    std::vector<Condition> when;  // all of them
    std::vector<Field> set;
  };

 private:
  std::vector<Field> fields_of(const std::string& id) const;

  std::vector<Record> records_;
  std::vector<Rule> rules_;
};

// Sets a field that is a number, as Stacks::put would.  Throws Error for an unknown field and for a value out of range.
void set_coefficient(sim::Stack& stack, const std::string& key, double value);

}  // namespace llmsim::hwdb
