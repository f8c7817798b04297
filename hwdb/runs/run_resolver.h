// Makes simulator input of run records: fills what they do not say, and notes
// each value it assumed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "hwdb/frameworks/frameworks.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/site.h"
#include "sim/run.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {

class Assumptions;

// Remembers hardware and frameworks between calls, so that thousands of records are resolved fast.
class RunResolver {
 public:
  // `database` must outlive the resolver; its coefficients of scope "framework" replace fields of
  // `frameworks`.  Every run is one of `site`, where that is given (site.h).
  explicit RunResolver(const Database& database, Frameworks frameworks = Frameworks::shipped(),
                       std::optional<Site> site = std::nullopt);

  // Fills unknown fields and checks the rest:
  //   shape      from the catalogue where the record has only a model's name; details that the
  //              schema has no key for (which layers have biases, q/k norms) from the catalogue's
  //              model of that name, if its shape is the recorded one
  //   mesh       tp, pp, cp, ep default to 1; dp to what remains of the devices
  //   batch      two of micro_batch, num_microbatches, global_batch give the third; micro_batch and
  //              num_microbatches default to 1
  //   layers     are divided over the stages with the embedding and the LM head counted as layers
  //              where only that divides evenly
  //   the rest   from the defaults of the framework (frameworks.h)
  // An assumed value gives the same answer as the same value stated: the number format, the model
  // and the sharding are filled in first, because the behaviour of the framework depends on them.
  // Free text is never read.  Each assumption becomes a Fact "assumed.<path of the key>".  Throws
  // Error naming file, run, key and what would be right: an unknown accelerator, system or
  // framework; a mesh or a batch that does not multiply; an essential value that is missing.
  sim::Run resolve(const RunRecord& record);

  // The same for a search, which chooses the layout: mesh, micro-batch, pipeline, sequence
  // parallelism, shard size and recomputation are those of a plain strategy, and nothing is assumed
  // about them.
  sim::Run resolve_without_layout(const RunRecord& record);

  // What applies to a run that was resolved without its layout, and has been given one, what the
  // site says of it (site.h); none where that is nothing.  Outlives the resolver.
  std::function<void(sim::Run&)> site_layouts() const;

  // The accelerator, by id or alias, or that of the system.  Throws Error as hardware.h does.
  const sim::Device& device_of(const RecordedHardware& hardware);

 private:
  sim::Run resolve(const RunRecord& record, bool laid_out);
  void resolve_parts(const RunRecord& record, bool laid_out, sim::Run& run, Assumptions& assume);
  const ClusterRecord& cluster_of(const RecordedHardware& hardware);

  const Database* database_;
  Frameworks frameworks_;
  std::optional<Site> site_;
  std::map<std::string, ClusterRecord> clusters_;
  std::map<std::string, sim::Device> devices_;
};

// Ranks that divide an expert, where a run does not say.
//
// Private to hwdb.

// `strategy` has its mesh and what is stated of it.  Expert ranks that do not fit into dp * cp, but
// into tp * dp * cp, have whole experts (etp = 1): no other mesh of that size exists.
void set_expert_ranks(const RecordedTraining& training, sim::Strategy& strategy,
                      Assumptions& assume);

}  // namespace llmsim::hwdb
