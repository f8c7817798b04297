// How training programs print their steps: formats (log_formats.rows), and the reading of a line.
//
// A format is a table of keys, each with what its number says and the unit it counts in: "max
// allocated" is a peak of memory in MiB.  A number is what stands behind its key and any of blank,
// colon, equals sign and quote.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmsim::calibrate {

// A number in base units, and half a unit of its last digit.  Logs print numbers with thousands
// separated by commas ("6,150"), with a decimal suffix K, M, B, G or T ("3.2K"), a binary unit,
// which is then the unit ("47.65GiB"), or a per cent sign.
struct Reading {
  double value = 0.0;
  double rounding = 0.0;

  double relative_rounding() const { return rounding / value; }
};

// The number at the start of `text`, which counts in `unit`.  None where there is none, and for
// "nan" and "inf".
std::optional<Reading> reading_at(std::string_view text, double unit = 1.0);

// What a number in a log says.  Rates are of the whole run unless they say "device".
enum class Logged {
  Step,                   // number of the optimizer step
  StepTime,               // seconds of one optimizer step
  PartTime,               // seconds of one phase of it; the phases add up
  MicroStepTime,          // seconds of one phase of one micro-batch; the phases add up
  StepsPerSecond,         //
  SamplesPerSecond,       // sequences
  TokensPerSecond,        //
  DeviceTokensPerSecond,  //
  ElapsedTime,            // seconds since the first step began
  WallTime,               // seconds on a clock: all that a program does between two lines counts
  Update,                 // number of the optimizer step that a micro-batch belongs to
  GlobalBatch,            // sequences of the step
  DeviceFlopsPerSecond,   //
  Mfu,                    //
  PeakAllocated,          // bytes, so far
  PeakReserved,           // bytes, so far
  Count
};

// What the lines of one step say, in little space: a log may have a million of them.
class Readings {
 public:
  std::optional<Reading> operator[](Logged what) const;
  void set(Logged what, const std::optional<Reading>& reading);
  void add(Logged what, const Reading& reading);  // sums phases; of others the last one counts
  bool has_time() const;                          // or a rate, from which a time follows
  void shrink() { values_.shrink_to_fit(); }      // to what is there

 private:
  static std::uint32_t bit(Logged what) { return std::uint32_t{1} << static_cast<int>(what); }
  std::size_t place(Logged what) const {
    return static_cast<std::size_t>(std::popcount(there_ & (bit(what) - 1)));
  }

  std::uint32_t there_ = 0;  // a bit for each
  std::vector<Reading> values_;
};

// Written "KEY"; "KEY{}UNIT" where the unit stands behind the number, as in "rate:1.5it/s", and
// tells what it is ("{}UNIT" where there is no key); "NAME ... KEY" where a name stands before it.
struct LogField {
  Logged what;
  std::string key;
  double unit = 1.0;
  std::string after{};  // stands right behind the number; empty: anything
  std::string below{};  // a name before the key, with no "name" between them; empty: none
};

// How the numbers of a step are laid out.
//   Line     keys and numbers on one line
//   Block    the same on several lines, the first of which has `sign`
//   Object   "key": number, of JSON or as Python prints a dictionary, on one line
//   Columns  a header with keys, then rows of numbers
//   Bar      steps that are done, of how many, and seconds of one or how many a second
enum class LogLayout { Line, Block, Object, Columns, Bar };

struct LogFormat {
  std::string name;  // of the program
  std::string sign;  // stands in every line with a step; what a user may look for
  LogLayout layout = LogLayout::Line;
  std::vector<LogField> fields{};
  std::vector<std::string> names{};  // with which a bar of training begins; "" where it has none
  bool whole_run = false;            // one line at the end, with the mean over all steps
  bool within_steps = false;         // of memory: printed while a step runs, before its own line
  std::string needed_key{};          // of an object of this format; empty: none
  std::string other_work{};          // of a step in addition to training: "generation of samples"
};

// log_formats.rows, as it was when the program was built.
std::string_view shipped_log_formats();

// All formats; where a log has steps in several, the earlier one is the better witness.
std::span<const LogFormat> log_formats();

// Lines with peaks of memory and no step.
std::span<const LogFormat> memory_formats();

// What `line` says in a format of lines, blocks, objects or bars; empty where it is no line of it.
Readings readings_of(const LogFormat& format, std::string_view line);

// The columns of a header: for each cell its field, or none.  Empty where no cell is a time or a
// rate, or the columns are of several runs ("RUN - KEY", as Weights & Biases exports).  A column
// "Value" is what the name of the `file` says, as TensorBoard exports.
std::vector<const LogField*> columns_of(const LogFormat& format, std::string_view line,
                                        std::string_view file = {});

// Why a header and the row below it are not read; none where they are no table.
std::optional<std::string> why_no_columns(const LogFormat& format, std::string_view header,
                                          std::string_view row);

// What a row says under such a header; empty where the row is cut off.
Readings readings_of(const std::vector<const LogField*>& columns, std::string_view line);

}  // namespace llmsim::calibrate
