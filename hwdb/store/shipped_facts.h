// The data files of hwdb, as they were when the program was built.
#pragma once

#include "hwdb/text/shipped_text.h"

namespace llmsim::hwdb {

// Every fact file that goes into the database, in the order of hwdb/CMakeLists.txt: "accelerators"
// for facts/accelerators.json.
std::span<const ShippedText> shipped_facts();

// Changes whenever one of those files does.
std::string_view shipped_facts_hash();

// facts/frameworks.json and others that are read where they lie and not through the database.
std::string_view shipped_frameworks_json();
std::string_view shipped_hardware_fields_json();
std::string_view shipped_kernel_fits_json();
std::string_view shipped_model_types_json();
std::string_view shipped_models_json();

// launch/targets/*.rows, by the names of their targets (launch/row_text.h).
std::span<const ShippedText> shipped_launch_rows();

// launch/fields.rows (launch/launch_fields.h).
std::string_view shipped_launch_fields();

}  // namespace llmsim::hwdb
