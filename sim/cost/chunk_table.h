// What is worked out once for model chunks with the same layers: of the stages of a run, and of the
// pipelines of a search under one mesh and sharding. Each value is made when it is first asked for,
// and stays where it is.
#pragma once

#include <deque>

#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

// On what a value depends besides the layers of its chunk.
struct ChunkConditions {
  const LayerPrices* prices = nullptr;
  int microbatches = 0;       // through a chunk
  int offloading_chunks = 0;  // of a stage, which share out the blocks that offload

  bool operator==(const ChunkConditions&) const = default;
};

template <class Value>
class ChunkTable {
 public:
  // The value of a chunk of the run with the same layers, else make().
  template <class Make>
  Value& of(const Run& run, const ChunkConditions& conditions, const ModelChunk& chunk,
            const Make& make) {
    std::deque<Known>& known = under(conditions);
    for (Known& one : known) {
      // Most differ at once, which spares the call.
      if (one.chunk == chunk &&
          have_equal_layers(one.chunk, chunk, run.model, run.strategy.precision,
                            run.framework.low_precision))
        return one.value;
    }
    return known.emplace_back(Known{chunk, make()}).value;
  }

 private:
  struct Known {
    ModelChunk chunk;
    Value value;
  };
  struct Table {
    ChunkConditions conditions;
    std::deque<Known> known{};
  };

  std::deque<Known>& under(const ChunkConditions& conditions) {
    for (Table& table : tables_) {
      if (table.conditions == conditions) return table.known;
    }
    return tables_.emplace_back(Table{conditions}).known;
  }

  std::deque<Table> tables_;
};

}  // namespace llmsim::sim
