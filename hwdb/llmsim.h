// The simulator as a library: what a program that links llmsim::hwdb includes.
//
//   const llmsim::hwdb::Database facts(":memory:");             // what is known of hardware
//   llmsim::hwdb::RunResolver resolver(facts);
//   const llmsim::sim::Run run = resolver.resolve(llmsim::hwdb::read_run("run.json"));
//   const llmsim::sim::Prediction prediction = llmsim::sim::predict(run);
//   const llmsim::sim::Plan plan = llmsim::sim::plan({.base = run});  // of the same question
//
// Run files have the keys of tests/validation/runs/README.md.  In CMake:
//
//   find_package(llmsim REQUIRED)
//   target_link_libraries(mine PRIVATE llmsim::hwdb)
//
// Errors are llmsim::Error, with one line that says what would be right.  Nothing here has global
// state: objects may be used in several threads, one thread each.
#pragma once

#include "hwdb/runs/plan_query.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/explain.h"
#include "sim/job.h"
#include "sim/plan.h"
#include "sim/predict.h"
