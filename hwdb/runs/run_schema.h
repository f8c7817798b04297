// The JSON Schema of run files.
#pragma once

#include <string>

namespace llmsim::hwdb {

// Draft 2020-12, of what parse_runs (run_record.h) reads: a file with "runs", or one run alone.  It
// is made of the tables that the reader uses, so that its keys are those that are read.  Names of
// models, hardware and frameworks are texts: the resolver knows them.  "$defs" has the sections of
// a run: run, model, hardware, training, measured, scored.
std::string run_schema();

}  // namespace llmsim::hwdb
