// A run, and a site that was measured on its device under its framework.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/site.h"
#include "hwdb/store/database.h"

namespace llmsim::hwdb {

inline RunRecord sample_record(const std::string& framework = "fsdp2",
                               const std::string& precision = "bf16",
                               const std::string& model = "llama-3-8b") {
  RunRecord record;
  record.id = "a";
  record.model.name = model;
  record.model.fields = {{"seq_len", 2048}};
  record.hardware.accelerator = "h100_sxm";
  record.hardware.num_devices = 16;
  record.training.framework = framework;
  record.training.strategy = {
      {"precision", precision}, {"sharding", "zero3"}, {"micro_batch", 1}, {"global_batch", 32}};
  return record;
}

// Its one cell is that of the record.
inline Site sample_site() {
  Site site;
  site.name = "ours";
  site.effects = {.step = 0.1, .memory = 0.05, .network = -0.2, .host = 0.15};
  site.deviations = {.step = 0.03, .memory = 0.08, .network = 0.12, .host = 0.25};
  site.error = 0.06;
  site.moe_error = 0.10;
  site.run_error = 0.02;
  site.cells = {{.device = "h100_sxm",
                 .framework = "fsdp2",
                 .precision = "bf16",
                 .kind = CellKind::Dense,
                 .step = 0.2,
                 .error = 0.03}};
  site.source = "a test";
  site.fitted_from = "2 runs: a, b";
  return site;
}

inline sim::Run resolved_at(const RunRecord& record, std::optional<Site> site = std::nullopt) {
  static const Database database(":memory:");
  return RunResolver(database, Frameworks::shipped(), std::move(site)).resolve(record);
}

}  // namespace llmsim::hwdb
