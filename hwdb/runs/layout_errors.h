// The rows of scope "layout" and id "all": what predictions of the layouts of one cluster are known
// to miss (sim/strategy/layout_errors.h, whose keys are theirs), fitted by calibrate/layout_fit.h.
#pragma once

#include "hwdb/store/database.h"
#include "sim/strategy/layout_errors.h"

namespace llmsim::hwdb {

inline constexpr const char* kLayoutScope = "layout";
inline constexpr const char* kAllLayouts = "all";

// Without rows layouts do not differ.
sim::LayoutErrors layout_errors(const Database& database);

}  // namespace llmsim::hwdb
