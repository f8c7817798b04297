// Tables as a web page.
#pragma once

#include <span>
#include <string>

#include "reports/table.h"

namespace llmsim::reports {

// One self-contained HTML document, light or dark as the browser is, that asks the network for
// nothing: each table with its caption, as people read it, and its notes below.
std::string table_page(const std::string& title, std::span<const Table> tables);

}  // namespace llmsim::reports
