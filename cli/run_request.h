// From the options of a command line to the simulator's input.
//
// An option that is not given takes a documented default, which becomes a fact "assumed.<key>" of
// the run so that the answer can print it:
//
//   gpus         predict: dp * tp * pp * cp; plan has no default
//   hardware     h100 in nodes of the system dgx_h100; with --hardware alone, the usual nodes of
//                that accelerator
//   seq_len      the training length of the model
//   global_batch 4 Mi tokens, or 1,024 a device where that is more, as whole sequences that the
//                devices (predict: dp * micro_batch) divide
//   framework    megatron-lm; maxtext on TPUs, megatron-deepspeed on Gaudi, other on Trainium
//   precision    the usual 16-bit format of the device
//   optimizer    adamw
//   switches     those of the framework
#pragma once

#include <map>
#include <string>

#include "cli/run_options.h"
#include "hwdb/models/catalogue.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/plan.h"
#include "sim/run.h"

namespace llmsim::cli {

// The model of the catalogue, or of a config.json.  Throws Error that begins "OPTION = NAME".
sim::NamedModel model_named(const std::string& option, const std::string& name);

// Resolves runs of a site; of none where its name is empty.
hwdb::RunResolver resolver_of(const std::string& site, const hwdb::Database& database);

// The run of a record or of options, and the values that were measured or published of it.
struct Request {
  sim::Run run;
  hwdb::Measured measured{};
};

// Requests of one database, which is read once: thousands that differ in their strategies are made
// in the time of a few.
class RunRequests {
 public:
  // `database` must outlive it.
  explicit RunRequests(const hwdb::Database& database);

  // One run.  Throws Error for an unknown name or a value out of range.  A mesh or batch that does
  // not multiply stays as it is: the simulator answers with the rule it breaks.
  sim::Run run_of(const RunOptions& options);
  Request request_of(const RunOptions& options);

  // The query of a plan, with the lists that restrict the search.  Throws Error for an unknown name
  // or a value out of range.
  sim::PlanQuery query_of(const RunOptions& options);

 private:
  hwdb::RunResolver& resolver(const std::string& site);

  const hwdb::Database* database_;
  std::map<std::string, hwdb::RunResolver> resolvers_;  // by site
};

// "predicting 8 stages": what a line on a terminal says of it (progress.h).
std::string predicting(const sim::Run& run);

// One request alone.
sim::Run run_of(const RunOptions& options, const hwdb::Database& database);
Request request_of(const RunOptions& options, const hwdb::Database& database);
sim::PlanQuery query_of(const RunOptions& options, const hwdb::Database& database);

}  // namespace llmsim::cli
