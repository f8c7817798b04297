#include "reports/plot.h"

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/number_list.h"
#include "cli/output.h"
#include "hwdb/text/input_file.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

struct PlotOptions {
  std::string data;
  std::string x, y, value, by, where, log, title;
  std::string file;  // empty: standard output
};

// The column that an option means, whose own name is another for devices and hardware.
std::string key_of(const reports::DataRows& data, const char* option, std::string name) {
  std::ranges::replace(name, '-', '_');
  if (data.has(name)) return name;
  for (const auto& [typed, key] :
       {std::pair("gpus", "num_devices"), std::pair("hardware", "accelerator")})
    if (name == typed && data.has(key)) return key;
  throw Error(std::string(option) + " = " + name + ": no such column" +
              hwdb::did_you_mean(name, data.keys) + "; there are " + sim::joined(data.keys, ", "));
}

std::pair<std::string, std::string> condition_in(const reports::DataRows& data,
                                                 const std::string& text) {
  const std::size_t equal = text.find('=');
  if (equal == std::string::npos)
    throw Error("--where = " + text + ": KEY=VALUE is expected, such as tp=8");
  return {key_of(data, "--where", text.substr(0, equal)), text.substr(equal + 1)};
}

reports::PlotRequest request_of(const PlotOptions& options, const reports::DataRows& data) {
  reports::PlotRequest request{.title = options.title};
  const auto set = [&](std::string& key, const char* option, const std::string& name) {
    if (!name.empty()) key = key_of(data, option, name);
  };
  set(request.x, "--x", options.x);
  set(request.y, "--y", options.y);
  set(request.value, "--value", options.value);
  for (const std::string& name : words_in(options.by))
    request.by.push_back(key_of(data, "--by", name));
  for (const std::string& text : words_in(options.where))
    request.where.push_back(condition_in(data, text));
  for (const std::string& axis : words_in(options.log)) {
    if (axis != "x" && axis != "y") throw Error("--log = " + axis + ": x, y or x,y is expected");
    (axis == "x" ? request.log_x : request.log_y) = true;
  }
  return request;
}

int run_plot(const PlotOptions& options) {
  const std::string text = hwdb::content_of_file(options.data);
  reports::DataRows data;
  try {
    data = reports::data_rows(text);
  } catch (const Error& error) {
    throw Error(options.data + ": " + error.what());
  }
  write_result(reports::plot(data, request_of(options, data)), {.file = options.file});
  return 0;
}

}  // namespace

void add_plot(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "plot", "a sweep or a validation as a chart: lines, a heat map, predicted against measured");
  const auto options = std::make_shared<PlotOptions>();
  add_option(*command, "DATA", options->data, "FILE",
             "what sweep wrote with --format csv or json, or validate with --format json; example: "
             "sweep.csv")
      ->required();
  add_option(
      *command, "--x", options->x, "KEY",
      "column along which is drawn; default the first setting that varies, numbers before words; "
      "example: --x gpus");
  add_option(
      *command, "--y", options->y, "KEY",
      "a heat map, with the values of this column as rows; default lines; example: --y pp --where "
      "micro_batch=1");
  add_option(*command, "--value", options->value, "KEY",
             "column that is drawn; default tokens_per_s_per_device, of a validation predicted_s; "
             "example: --value step_time_s");
  add_option(
      *command, "--by", options->by, "KEYS",
      "columns that make a line of their own for each of their values; default those that tell "
      "rows apart; of a validation none; example: --x pp --by tp,micro_batch");
  add_option(
      *command, "--where", options->where, "KEY=VALUE",
      "only rows with these values; default all; example: --where micro_batch=2,recompute=none");
  add_option(
      *command, "--log", options->log, "AXES",
      "axes that are logarithmic: x, y or x,y; default x where its values span a factor of 8; "
      "example: --log y");
  add_option(*command, "--title", options->title, "TEXT",
             "default what all rows have in common; example: --title \"Llama 70B on H100\"");
  add_option(*command, "-o", options->file, "FILE",
             "SVG file to write; default standard output; example: -o sweep.svg");
  command->footer(
      "Exit status: 0 drawn, 1 error, 2 usage.\n"
      "Runs that do not fit are hollow marks, grey in a heat map; what breaks a rule has none.\n"
      "Examples:\n"
      "  llmsim sweep --model gpt2 --gpus 8-64*2 --tp 1,2 -o sweep.csv\n"
      "  llmsim plot sweep.csv -o sweep.svg\n"
      "  llmsim plot sweep.csv --x gpus --y tp --value step_time_s -o map.svg");
  command->callback([options, &status] { status = run_plot(*options); });
}

}  // namespace llmsim::cli
