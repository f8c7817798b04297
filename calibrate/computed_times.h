// Studies whose step times were computed, not measured.
//
// A step of n equal micro-batches takes a + b n, and on a machine only up to its noise.  Of three runs that differ in the global
// batch alone, n1 < n2 < n3, the middle one lies off the line through the others by
//
//   e = |t1 + (t3 - t1) (n2 - n1) / (n3 - n1) - t2| / t2
//
// The measured studies have e of 1e-3 and more.  A study is taken for computed where e < 1e-6 in at least three triples of
// neighbours and in more than half of them; times printed more coarsely than that say nothing.  Such times are what another model
// of a step holds (vTrain's "ground truth" of one node has e < 1e-15 in all of 432 triples, and what a data rank more costs is an
// entry of its table of all-reduces): they are scored as published, but they are no evidence, so nothing is fitted to them.
#pragma once

#include <set>
#include <span>
#include <string>

#include "hwdb/run_record.h"

namespace llmsim::calibrate {

// Names of the groups, of those that have scored step times.
std::set<std::string> computed_groups(std::span<const hwdb::RunFile> files);

}  // namespace llmsim::calibrate
