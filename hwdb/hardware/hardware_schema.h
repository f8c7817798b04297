// The JSON Schema of one's own hardware.
#pragma once

#include <string>

namespace llmsim::hwdb {

// Draft 2020-12, of what add_hardware (user_hardware.h) reads, made of facts/hardware_fields.json.
// Names that must be known, or free, are texts: the database knows them.
std::string hardware_schema();

}  // namespace llmsim::hwdb
