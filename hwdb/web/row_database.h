// The database of a program without SQLite and files: hwdb::Database over the text of its rows.
//
// Its source replaces database.cpp in the module of a page (cli/web/CMakeLists.txt) and
// has only the queries.
#pragma once

#include <string>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

// The database over `rows`, a text of rows_text() (database_rows.h), with the path and version of
// the database that wrote it.  Throws Error where it is no such text.
Database row_database(const std::string& rows);

}  // namespace llmsim::hwdb
