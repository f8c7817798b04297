// The database of a program without SQLite and files: hwdb::Database over the text of its rows.
//
// Its source stands in for database.cpp in the module of a page (cli/web/CMakeLists.txt) and has the
// queries alone.
#pragma once

#include <string>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

// `rows`: of rows_text() (database_rows.h).  Path and version are those of the database that the
// rows come from.  Throws Error where it is no such text.
Database row_database(const std::string& rows);

}  // namespace llmsim::hwdb
