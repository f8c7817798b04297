// The fields of a strategy that a search chooses, each described once: the values that make sense,
// when it applies, how it ranks among equal plans, and what its option says.  The space of
// strategies, queries, options, the ranking and the output of plans iterate over this table.
//
// A new searched field is a member of SearchLayout, SearchPipeline or SearchSharding, and a row of
// the table in searched_fields.cpp.
//
// A search chooses level by level.  A layout decides the prices of layers; a pipeline, how stages
// share the layers; a sharding, how data ranks share the states, and in which order they are
// numbered; then what is recomputed.  Rows of a level stand in the order in which they are chosen:
// what makes sense for one may depend on those before it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/field.h"
#include "sim/model/transformer.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Values of fields by key: what a search is restricted to, or what it must not try; "recompute" as
// people type it (text_of(Recompute)).
using Restriction = std::map<std::string, std::vector<FieldValue>>;

inline constexpr std::array<Sharding, 5> kAllShardings{
    Sharding::None, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3, Sharding::Hsdp};

inline std::size_t index_of(Sharding sharding) { return static_cast<std::size_t>(sharding); }

// What a search starts from: all that it does not choose is as in these.
struct SearchBase {
  const Transformer& model;
  int num_devices;
  Strategy strategy;
  // By Sharding: with what the framework does there.
  std::array<Strategy, kAllShardings.size()> under;
  FrameworkOffers offers{};
  Restriction excluded{};  // values that no strategy of the search has, also of etp
  // Devices that one fabric joins: buffers that GEMMs share reach no further.
  int fabric_devices = std::numeric_limits<int>::max();
  int domain_devices = std::numeric_limits<int>::max();  // that share a node, or such a fabric
};

// Everything that decides the prices of layers.
struct SearchLayout {
  int tp = 1, pp = 1, cp = 1, dp = 1;
  int micro_batch = 1;
  int ep = 1;
  int etp = 0;  // 0: not stated, as many as tp
  bool sequence_parallel = false;
  bool tp_overlap = false;
  ExpertDispatch moe_dispatch = ExpertDispatch::AllToAll;
  bool moe_overlap = false;
  bool cuda_graph = false;
};

struct SearchPipeline {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int virtual_stages = 1;
  bool embeddings_as_layers = false;
  // Of each model chunk, where the head takes the place of some layers; empty: as many each.
  std::vector<int> chunk_layers{};
};

// What data ranks share, and where they are.
struct SearchSharding {
  Sharding sharding = Sharding::None;
  int shard_size = 0;
  MeshOrder mesh_order = MeshOrder::PipelineLast;
};

// A strategy while it is chosen, but for what it recomputes.
struct SearchChoice {
  SearchLayout layout{};
  SearchPipeline pipeline{};
  SearchSharding sharding{};
};
// The same of three choices that stand elsewhere.
struct SearchChoiceView {
  const SearchLayout& layout;
  const SearchPipeline& pipeline;
  const SearchSharding& sharding;
};

enum class SearchLevel { Layout, Pipeline, Sharding, Recompute };

// What a restriction of a field does.
enum class Restricted {
  Replaced,  // its values are tried in place of those that make sense
  Filtered,  // of those that make sense its values are tried
  Excluded,  // the field cannot be restricted, values can be excluded
  Never      // neither
};

// Values are numbers: counts, 0 and 1, places in an enumeration.
struct SearchedValue {
  std::int64_t (*of)(const Strategy&) = nullptr;  // by which strategies are ordered and excluded
  std::int64_t (*get)(const SearchChoiceView&) = nullptr;
  void (*put)(std::int64_t value, SearchChoice&) = nullptr;
  void (*write)(const SearchChoiceView&, Strategy&) = nullptr;
  void (*read)(const Strategy&, SearchChoice&) = nullptr;
  // None: a value that the field cannot have.
  std::optional<std::int64_t> (*parse)(const FieldValue&) = nullptr;
};

struct SearchedField {
  const char* key = "";  // of strategy_fields(); "recompute" is one field as a whole
  SearchLevel level = SearchLevel::Layout;
  SearchedValue value{};
  // Equal plans are ordered by the field with the smallest place in which they differ: the smaller
  // value is the simpler one, or where there is a `labour`, what takes less of it.
  int simplicity = 0;
  std::int64_t (*labour)(const Strategy&) = nullptr;
  // Where it does not apply, it has its plain value, whatever is asked for.  Null: everywhere.
  bool (*applies)(const SearchBase&, const SearchChoice& so_far) = nullptr;
  // The values that make sense.  Null: all fields of the level are chosen together (SearchSpace).
  std::vector<std::int64_t> (*sensible)(const SearchBase&, const SearchChoice& so_far) = nullptr;
  const char* help = "";  // of its option, which takes a list in a search; empty: none of its own
  Restricted restricted = Restricted::Replaced;
  bool is_rest = false;  // follows from the fields before it, unless it is asked for
  // As in the base, unless several values are asked for.
  bool opt_in = false;
  // Of a layout: it leaves the mesh as it is.
  bool is_switch = false;
  bool of_experts = false;  // it changes the prices of layers with experts alone
  bool has_bounds = false;  // what a step takes at least differs between its values
};

const std::vector<SearchedField>& searched_fields();
// Null for another key.
const SearchedField* find_searched_field(std::string_view key);
// Whether a search can be restricted to values of a field.
bool is_searched(std::string_view key);
// Whether it is one of the fields that all searches choose.
bool is_always_searched(const SearchedField& field);
// The keys of fields that can be restricted, or excluded alone.
std::vector<std::string> searched_keys();

// The value of a switch (is_switch).
std::int64_t switch_value(const SearchedField& field, const SearchLayout& layout);

// Ranks that divide an expert of a layout.
int expert_tensor_ranks(const SearchBase& base, const SearchLayout& layout);

// In ascending order.
std::vector<int> divisors(int number);

}  // namespace llmsim::sim
