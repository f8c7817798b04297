#include "cli/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <system_error>

#include "cli/help_format.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewFile = 0666;  // less the user's mask

// A reader that closed the pipe wants no more.
void write_standard_output(const TextSource& text) {
  errno = 0;
  bool written = true;
  text([&](std::string_view piece) {
    written = written && std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size();
  });
  written = written && std::fflush(stdout) == 0;
  if (!written && errno != EPIPE)
    throw Error(std::string("standard output: ") + std::strerror(errno));
}

[[noreturn]] void refuse_write(const std::string& path, int reason) {
  throw Error(path + ": cannot be written: " + std::strerror(reason));
}

// 0, or the errno of what failed.
int write_all(int file, std::string_view text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return 0;
}

// Writes to an open file, gives it its name where it has none, and closes it; 0, or the errno of the
// first that failed.
int written_to(int file, const TextSource& text, std::optional<mode_t> mode, const char* name) {
  if (file < 0) return errno;
  int reason = 0;
  text([&](std::string_view piece) {
    if (reason == 0) reason = write_all(file, piece);
  });
  if (reason == 0 && mode && ::fchmod(file, *mode) != 0) reason = errno;
  const std::string nameless = "/proc/self/fd/" + std::to_string(file);
  if (reason == 0 && name &&
      ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) != 0)
    reason = errno;
  if (::close(file) != 0 && reason == 0) reason = errno;
  return reason;
}

int open_file(const std::string& path, int flags, std::optional<mode_t> mode) {
  return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, mode.value_or(kNewFile));
}

// A file of that name that is new.  It has none while it is written, where the file system can do
// that: an interruption leaves nothing.
int written_anew(const TextSource& text, const std::string& path, std::optional<mode_t> mode) {
#ifdef O_TMPFILE
  const fs::path folder = fs::path(path).parent_path();
  const int file = open_file(folder.empty() ? "." : folder.string(), O_TMPFILE, mode);
  if (file >= 0 && ::access("/proc/self/fd", X_OK) == 0)
    return written_to(file, text, mode, path.c_str());
  if (file >= 0) ::close(file);
#endif
  return written_to(open_file(path, O_CREAT | O_EXCL, mode), text, mode, nullptr);
}

// The file that takes the place of `path`, which a symbolic link names by another path.
void replace_file(const TextSource& text, const std::string& path, std::optional<mode_t> mode) {
  const std::string fresh = path + "." + std::to_string(::getpid()) + ".new";
  int reason = written_anew(text, fresh, mode);
  if (reason == 0 && std::rename(fresh.c_str(), path.c_str()) != 0) reason = errno;
  if (reason == 0) return;
  if (reason != EEXIST) ::unlink(fresh.c_str());
  refuse_write(path, reason);
}

// What its user asks for, else what standard output has.
std::optional<std::size_t> terminal_columns() {
  if (const auto asked = given_columns()) return asked;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

}  // namespace

void write_file(const TextSource& text, const std::string& path) {
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    const int reason = written_to(open_file(path, 0, {}), text, {}, nullptr);
    if (reason != 0) refuse_write(path, reason);
    return;
  }
  std::error_code error;
  const fs::path target = exists ? fs::canonical(path, error) : fs::path(path);
  replace_file(text, error ? path : target.string(),
               exists ? std::optional(old.st_mode & 07777) : std::nullopt);
}

void write_file(const std::string& text, const std::string& path) {
  write_file([&](const TextSink& put) { put(text); }, path);
}

void check_can_be_written(const std::string& path) {
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) refuse_write(path, EISDIR);
  const fs::path folder = fs::path(path).parent_path();
  const bool in_place = exists && !S_ISREG(old.st_mode);
  const std::string written_to = in_place ? path : folder.empty() ? "." : folder.string();
  if (::access(written_to.c_str(), W_OK) != 0) refuse_write(path, errno);
  if (!in_place && !fs::is_directory(written_to)) refuse_write(path, ENOTDIR);
}

void say_why_not(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "llmsim: " << message << "\n";
}

void add_output_options(CLI::App& command, OutputOptions& options) {
  add_option(command, "--format", options.format, "FORMAT",
             "table, markdown, csv, json or latex; csv and json have base units and stable keys; "
             "default table; example: --format json");
  add_option(command, "-o,--output", options.file, "FILE",
             "write the result to a file; default standard output; example: -o plan.json");
}

reports::Format format_of(const OutputOptions& options) {
  std::string name = options.format;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (const auto format = sim::named<reports::Format>(name)) return *format;
  throw Error("--format = " + options.format + ": " +
              sim::alternatives(sim::all_names<reports::Format>()) + " is expected");
}

std::optional<std::size_t> given_columns() {
  const char* const asked = std::getenv("COLUMNS");
  const long number = asked ? std::strtol(asked, nullptr, 10) : 0;
  return number > 0 ? std::optional(static_cast<std::size_t>(number)) : std::nullopt;
}

reports::Style style_of(const OutputOptions& options) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  const bool shown = options.file.empty() && isatty(STDOUT_FILENO) != 0;
  reports::Style style{.colour = wanted && shown};
  constexpr std::size_t kLeastWidth = 80;
  if (const auto columns = shown ? terminal_columns() : given_columns())
    style.width = std::max(kLeastWidth, *columns);
  return style;
}

void write_result(const std::string& text, const OutputOptions& options) {
  write_result([&](const TextSink& put) { put(text); }, options);
}

void write_result(const TextSource& text, const OutputOptions& options) {
  if (options.file.empty())
    write_standard_output(text);
  else
    write_file(text, options.file);
}

void add_database_option(CLI::App& command, std::string& path) {
  add_option(command, "--db", path, "PATH",
             "database of hardware and coefficients; default llmsim/llmsim.db in the user's data "
             "directory; example: --db site.db");
}

hwdb::Database open_database(const std::string& path) {
  return path.empty() ? hwdb::Database() : hwdb::Database(path);
}

hwdb::Database open_database_to_write(const std::string& path) {
  return hwdb::Database(path.empty() ? hwdb::default_database_path() : path, hwdb::Access::Write);
}

std::string name_of(const hwdb::Database& database) {
  return without_folder(database.path()) + ", " + database.version();
}

std::string place_of(const hwdb::Database& database) {
  return database.path() + ", " + database.version();
}

std::string without_folder(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace llmsim::cli
