// The shipped facts, and what resolves runs on them, once for all cases of a program.
#pragma once

#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"

namespace llmsim::hwdb {

inline const Database& facts() {
  static const Database database(":memory:");
  return database;
}

inline RunResolver& resolver() {
  static RunResolver one(facts());
  return one;
}

}  // namespace llmsim::hwdb
