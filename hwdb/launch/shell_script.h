// The commands of a shell script, as far as they can be found without running it.
//
// Variables, arrays, defaults (${A:-b}), sums and products ($((A*B))) and conditions on
// them are followed.  A variable that the script does not set stays "$NAME"; an
// undecidable condition is false.
//
// Private to hwdb.
#pragma once

#include <string>
#include <vector>

namespace llmsim::hwdb {

// The words of each command, and of each text that is put into a variable.  Throws Error for quotes
// and brackets without an end.
std::vector<std::vector<std::string>> commands_of_script(const std::string& script);

}  // namespace llmsim::hwdb
