#include "cli/database_option.h"

namespace llmsim::cli {

void add_database_option(CLI::App& command, std::string& path) {
  command
      .add_option("--db", path,
                  "database of hardware and coefficients; default llmsim/llmsim.db in the user's data directory; "
                  "example: --db site.db")
      ->type_name("PATH");
}

hwdb::Database open_database(const std::string& path) { return path.empty() ? hwdb::Database() : hwdb::Database(path); }

hwdb::Database open_database_to_write(const std::string& path) {
  return hwdb::Database(path.empty() ? hwdb::default_database_path() : path, hwdb::Access::Write);
}

std::string name_of(const hwdb::Database& database) { return database.path() + ", " + database.version(); }

}  // namespace llmsim::cli
