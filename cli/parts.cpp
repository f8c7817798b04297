#include "cli/parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string_view>

#include "cli/help_format.h"
#include "hwdb/text/input_file.h"
#include "hwdb/text/quoting.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

constexpr std::string_view kMark = "# part ";

std::optional<std::size_t> count_of(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string text_of(Part part) {
  return "part " + std::to_string(part.number) + " of " + std::to_string(part.count);
}

// A part's file, and where its rows lie in it.
struct PartFile {
  std::string path;
  Part part;
  std::string question, header;  // without line ends
  std::streamoff first_row = 0, end_of_rows = 0;
};

[[noreturn]] void refuse(const PartFile& file, const std::string& why) {
  throw Error(file.path + ": " + why);
}

// Takes what stands before `end` off `text`, and `end` with it.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + end.size(), text.size()));
  return taken;
}

std::string line_of(std::ifstream& stream, const PartFile& file) {
  constexpr std::streamsize kLongest = 1 << 20;
  std::string line(kLongest, '\0');
  stream.getline(line.data(), kLongest);
  if (!stream || stream.eof()) refuse(file, "is no part of an answer: --part K/N writes them");
  line.resize(static_cast<std::size_t>(stream.gcount()) - 1);
  return line;
}

void read_first_mark(PartFile& file, std::string_view line) {
  const bool is_mark = line.starts_with(kMark);
  line.remove_prefix(is_mark ? kMark.size() : line.size());
  const auto number = count_of(take_until(line, " of ")), count = count_of(take_until(line, ": "));
  if (!number || !count || *number < 1 || *number > *count)
    refuse(file, "line 1: \"# part K of N: the question\" is expected, which --part K/N writes");
  file.part = {*number, *count};
  file.question = line;
}

PartFile read_part(const std::string& path) {
  hwdb::require_readable(path);
  PartFile file{.path = path, .part = {}, .question = {}, .header = {}};
  std::ifstream stream(path, std::ios::binary);
  read_first_mark(file, line_of(stream, file));
  file.header = line_of(stream, file);
  file.first_row = stream.tellg();
  const std::string expected = last_mark(file.part);
  std::string last(expected.size(), '\0');
  stream.seekg(-static_cast<std::streamoff>(last.size()), std::ios::end);
  file.end_of_rows = stream.tellg();
  stream.read(last.data(), static_cast<std::streamsize>(last.size()));
  if (!stream || last != expected || file.end_of_rows < file.first_row)
    refuse(file, text_of(file.part) + " is not complete: its last line is not \"" +
                     expected.substr(0, expected.size() - 1) + "\"");
  return file;
}

void check_same_answer(const PartFile& first, const PartFile& other) {
  const auto whole = [](const PartFile& file) {
    return text_of(file.part) + " of \"" + file.question + "\"";
  };
  if (other.question != first.question || other.part.count != first.part.count)
    refuse(other, whole(other) + ", but " + first.path + " is " + whole(first));
  if (other.header != first.header) refuse(other, "has other columns than " + first.path);
}

// Of files in the order of their parts.
void check_complete(const std::vector<PartFile>& files) {
  std::string missing;
  std::size_t next = 1;
  for (const PartFile& file : files) {
    check_same_answer(files.front(), file);
    if (file.part.number < next)
      refuse(file, text_of(file.part) + " is there twice: also in " + (&file - 1)->path);
    for (; next < file.part.number; ++next) missing += " " + std::to_string(next);
    ++next;
  }
  for (; next <= files.front().part.count; ++next) missing += " " + std::to_string(next);
  if (!missing.empty())
    throw Error("of " + std::to_string(files.front().part.count) +
                " parts these are missing:" + missing);
}

void copy_rows(const PartFile& file, const TextSink& put) {
  std::ifstream stream(file.path, std::ios::binary);
  stream.seekg(file.first_row);
  std::string piece(1 << 20, '\0');
  for (std::streamoff left = file.end_of_rows - file.first_row; left > 0;) {
    const std::streamoff size = std::min(left, static_cast<std::streamoff>(piece.size()));
    if (!stream.read(piece.data(), size)) refuse(file, "cannot be read");
    put(std::string_view(piece).substr(0, static_cast<std::size_t>(size)));
    left -= size;
  }
}

}  // namespace

void add_part_option(CLI::App& command, std::optional<std::string>& part,
                     const std::string& of_what, const std::string& example) {
  add_option(command, "--part", part, "K/N",
             "one of several equal parts of " + of_what +
                 ", as CSV between two marks, for llmsim join; default all; example: " + example);
}

Part part_in(const std::optional<std::string>& asked) {
  if (!asked) return {};
  const std::string& text = *asked;
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto number = count_of(std::string_view(text).substr(0, slash)),
             count = count_of(std::string_view(text).substr(std::min(slash + 1, text.size())));
  if (!number || !count || *number < 1 || *number > *count)
    throw Error("--part = " + text + ": K/N with K from 1 to N is expected, such as 3/16");
  return {*number, *count};
}

void require_csv(reports::Format format) {
  if (format != reports::Format::Csv) throw Error("--part: --format csv is expected");
}

PartRange range_of(Part part, std::size_t all) {
  if (part.is_all()) return {.first = 0, .last = all};
  return {.first = all * (part.number - 1) / part.count, .last = all * part.number / part.count};
}

std::string question_of(const CLI::App& command) {
  constexpr std::array kNoQuestion{"part",   "jobs", "resume",   "slurm", "output",
                                   "format", "help", "help-all", "space", "question"};
  std::string text = "llmsim " + command.get_name();
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_single_name();
    if (option->count() == 0 || std::ranges::find(kNoQuestion, name) != kNoQuestion.end()) continue;
    std::string words;
    for (const std::string& word : option->results()) words += (words.empty() ? "" : ",") + word;
    text += " ";
    if (!option->get_positional()) text += "--" + name + "=";
    text += hwdb::shell_quoted(Error::printable(words));
  }
  return text;
}

std::string first_mark(Part part, const std::string& question) {
  return part.is_all() ? "" : "# " + text_of(part) + ": " + question + "\n";
}

std::string last_mark(Part part) { return part.is_all() ? "" : "# end of " + text_of(part) + "\n"; }

std::string marked(const std::string& csv, Part part, const std::string& question) {
  return first_mark(part, question) + csv + last_mark(part);
}

TextSource joined(const std::vector<std::string>& paths) {
  std::vector<PartFile> files;
  for (const std::string& path : paths) files.push_back(read_part(path));
  std::ranges::stable_sort(files, {}, [](const PartFile& file) { return file.part.number; });
  check_complete(files);
  return [files](const TextSink& put) {
    put(files.front().header + "\n");
    for (const PartFile& file : files) copy_rows(file, put);
  };
}

}  // namespace llmsim::cli
