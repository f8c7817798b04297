// Training frameworks: what they store, launch and overlap, and their defaults for what a run does
// not state.
//
// facts/frameworks.json holds three lists.
//
//   frameworks          a framework by fields, each with its evidence and source; "like" takes over
//                       the fields of a framework that stands before it.  A field has one value, or
//                       several that held until a date, first to last: the run's date, or that of
//                       the release of the version that it states, chooses.  "rules_of": rows and
//                       rules below that name that framework hold for this one too, which "like"
//                       alone does not say.
//   attention_kernels   which kernel a framework calls on an architecture at a date: the first row
//                       that holds
//   rules               fields of runs that state some setting or number format; all that hold
//                       apply, in the order of the file
//
// The conditions of a row or a rule are typed facts of the run; each holds for one of its values:
//
//   framework, precision, position, blocks, sharding, trainable   equal to it
//   architecture  of the accelerator, begins with it: "Hopper"
//   a key of settings.h  what the run states equals it: {"deterministic": "true"}
//
// Free text decides nothing.  Coefficients of scope "framework" in the database replace fields of a
// framework, not of a rule.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hwdb/store/database.h"
#include "sim/run.h"

namespace llmsim::hwdb {

// The facts of a run that decide how its software behaves.  Empty: unknown.
struct FrameworkQuery {
  std::string framework{};  // id of a framework
  std::string date{};       // "YYYY-MM-DD"; empty: today
  std::string version{};    // of the framework; a known release has a date, which counts then
  std::string precision{};
  std::string architecture{};  // of the accelerator
  std::string position{};
  std::string blocks{};  // "encoder", "moe" where the model has experts, else "dense"
  std::string sharding{};
  std::string trainable{};  // "all", "lora", "adapter"
  sim::SettingValues settings{};
};

// The defaults of a framework for what a run's record does not state.
struct FrameworkDefaults {
  // Of the fields that strategy_fields() calls the framework's, and the sharding.
  sim::Strategy strategy;
  bool optimizer_step = true;  // false: a recorded step is a micro-step without optimizer
  sim::CollectiveAlgorithm collective_algorithm = sim::CollectiveAlgorithm::Auto;
  std::optional<bool> bias;  // linear layers have biases; none: as the kind of norm suggests
  // ZeRO-2 is FSDP's SHARD_GRAD_OP: sharded weights that are gathered once and stay until the
  // backward pass has used them.
  bool zero2_shards_weights = false;
  bool auto_buckets = false;  // DeepSpeed's reduce_bucket_size is hidden_size squared
};

struct FrameworkChoice {
  sim::Framework framework;
  FrameworkDefaults defaults;
  std::vector<sim::Fact> facts;  // one per field: "framework.<id>.<field>"
};

class Frameworks {
 public:
  // Reads the text of frameworks.json.  Throws Error naming the file, the framework or rule, and
  // the key that is wrong.
  static Frameworks parse(const std::string& text, const std::string& file);

  // The shipped frameworks.
  static Frameworks shipped();

  // The behaviour of a framework with all rules that apply and what the run states.  Throws Error
  // for an unknown framework, naming the nearest known one.
  FrameworkChoice choose(const FrameworkQuery& query) const;

  std::vector<std::string> ids() const;

  // The number that a framework, or one that it is like, has in a field; none where the field is
  // not set or is no number.
  std::optional<double> number(const std::string& id, const std::string& key) const;

  // The frameworks from which `id` takes a field where a coefficient sets it, itself last: those
  // that it is like, down from the nearest with the field in its own record.
  std::vector<std::string> lineage(const std::string& id, const std::string& key) const;

  // Replaces the field of a framework, at any date, by a coefficient of scope "framework", for the
  // frameworks that are like it too unless they have their own.  Throws Error for an unknown
  // framework or field and for a value out of range.
  void put(const Coefficient& coefficient);

  // One value of a field.
  struct Field {
    std::string key;
    std::string value;  // JSON text
    sim::Evidence evidence = sim::Evidence::Assumed;
    std::string source;
    // "YYYY-MM-DD", the first day on which it holds no more; empty: it still holds.
    std::string until{};
  };
  struct Record {
    std::string id;
    std::string name;
    std::string like;           // the framework whose fields hold where it has none; empty: none
    std::string rules_of;       // the framework whose rules hold for it too; empty: none
    std::vector<Field> fields;  // its own; those of one key in the order of their dates
    std::vector<std::pair<std::string, std::string>> releases;  // versions with their dates
  };
  struct Condition {
    std::string key;
    std::vector<std::string> values;  // any of them
  };
  struct Rule {
    std::vector<Condition> when;  // all of them; none: always
    std::vector<Field> set;
  };

 private:
  std::string date_of(const Record& record, const FrameworkQuery& query) const;
  std::vector<Field> fields_of(const std::string& id, const std::string& date) const;

  std::vector<Record> records_;
  std::vector<Rule> kernels_;  // of attention
  std::vector<Rule> rules_;
};

// Replaces what the framework does by what a run states, and notes each field as a fact.
void apply_settings(const sim::SettingValues& settings, FrameworkChoice& choice);

// Sets a field that is a number, as Frameworks::put would.  Throws Error for an unknown field and
// for a value out of range.
void set_coefficient(sim::Framework& framework, const std::string& key, double value);

}  // namespace llmsim::hwdb
