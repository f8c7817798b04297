#include "cli/serve/site.h"

#include <algorithm>
#include <array>
#include <thread>

#include "cli/mcp/json_text.h"
#include "cli/own_process.h"
#include "cli/serve/form.h"
#include "hwdb/frameworks/frameworks.h"
#include "hwdb/launch/launch_file.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/strategy/strategy.h"

namespace llmsim::cli::serve {
namespace {

using mcp::Json;

constexpr std::array kCommands{"plan", "predict", "diagnose", "compare"};

// Of the page: nothing but what this server has, and in no frame of others.
constexpr const char* kOwnPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'";

// Of an answer, which draws itself with the script that stands in it: in a place of its own, from
// which it reaches neither this server nor another one.
constexpr const char* kAnswerPolicy =
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; script-src "
    "'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
    "'none'; frame-ancestors 'self'";

// Tells the page in which it is shown how high it is.
constexpr const char* kHeightScript =
    "<script>{ const tell = () => parent.postMessage({height: "
    "document.documentElement.offsetHeight}, '*'); tell(); new "
    "ResizeObserver(tell).observe(document.documentElement); }</script>";

Response page(std::string_view text) {
  return {.type = "text/html; charset=utf-8",
          .body = std::string(text),
          .headers = {{"Content-Security-Policy", kOwnPolicy},
                      {"Cross-Origin-Opener-Policy", "same-origin"}}};
}

Response failure(const Refusal& refusal) {
  Response response{.status = refusal.status, .body = refusal.message + "\n"};
  if (refusal.status == 405) response.headers.emplace_back("Allow", "GET, HEAD, POST");
  return response;
}

std::string type_of(const std::string& name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".tar.gz")) return "application/gzip";
  return "text/plain; charset=utf-8";
}

Response stored(const StoredAnswer& answer, const std::string& query) {
  Response response{.type = type_of(answer.name),
                    .body = answer.body,
                    .headers = {{"Content-Security-Policy", kAnswerPolicy}}};
  const bool is_page = answer.name.ends_with(".html");
  if (is_page && query == "framed") {
    const std::size_t end = response.body.rfind("</body>");
    if (end != std::string::npos) response.body.insert(end, kHeightScript);
  } else if (!is_page || query == "download") {
    response.headers.emplace_back("Content-Disposition",
                                  "attachment; filename=\"" + answer.name + "\"");
  }
  return response;
}

Json json_of(const std::vector<std::string>& arguments) {
  constexpr std::chrono::seconds kLimit{60};
  const ProcessOutcome outcome = run_self({.arguments = arguments, .limit = kLimit});
  if (outcome.status != 0) throw Error(messages_of(outcome));
  return mcp::json_in(outcome.out);
}

// Names with what they are called and known by.
Json names_of(const Json& rows, const char* id, const char* title) {
  Json names = Json::array();
  for (const Json& row : rows) {
    Json one{{"id", row[id]}, {"aliases", row.value("aliases", Json(""))}};
    if (title != nullptr) one["name"] = row[title];
    names.push_back(std::move(one));
  }
  return names;
}

// At least two, so that a short question need not wait for a long one.
std::ptrdiff_t turns_at_the_same_time() {
  return std::max<std::ptrdiff_t>(2, std::thread::hardware_concurrency());
}

}  // namespace

Site::Site(const CLI::App& program, SiteOptions options)
    : options_(std::move(options)),
      store_(options_.folder),
      turns_(turns_at_the_same_time()),
      means_{.program = program,
             .limit = options_.limit,
             .temporary = std::filesystem::temp_directory_path(),
             .store = store_,
             .turns = turns_} {}

Response Site::answer(const Request& request, Client& client) {
  try {
    if (const auto refusal = refusal_of(request, options_.place)) return failure(*refusal);
    return admitted(request, client);
  } catch (const Refusal& refusal) {
    return failure(refusal);
  } catch (const Error& error) {
    return failure({500, error.what()});
  } catch (const std::exception&) {  // of a library, or no memory: a fault of this program
    return failure({500, "an unexpected fault, please report it"});
  }
}

Response Site::admitted(const Request& request, Client& client) {
  constexpr std::string_view kJson = ".json", kAnswers = "/answers/";
  const std::string& path = request.path;
  if (path == "/ask") {
    if (request.method != "POST") throw Refusal{405, "POST is expected"};
    answer_in_lines(form_of(request), means_, client);
    return {.sent = true};
  }
  for (const char* command : kCommands)
    if (path == "/" + std::string(command).append(kJson))
      return json_answer(command, form_of(request), means_, client);
  if (request.method == "POST") throw Refusal{405, "GET is expected"};
  if (path == "/names.json") return {.type = "application/json", .body = names()};
  if (!path.starts_with(kAnswers)) return named(path);
  if (const auto answer = store_.find(path.substr(kAnswers.size())))
    return stored(*answer, request.query);
  throw Refusal{404, "this answer is no longer kept: ask again"};
}

Response Site::named(const std::string& path) const {
  if (path == "/") return page(start_page());
  if (path == "/style.css") return {.type = "text/css", .body = std::string(serve_style())};
  if (path == "/serve.js") return {.type = "text/javascript", .body = std::string(serve_script())};
  if (path == "/favicon.ico") return {.status = 204};
  throw Refusal{404, "there is nothing at this path"};
}

const std::string& Site::names() {
  const std::lock_guard lock(mutex_);
  if (!names_.empty()) return names_;
  Json names{{"version", options_.version}};
  names["models"] = names_of(json_of({"models", "list", "--format=json"}), "name", nullptr);
  names["hardware"] = names_of(json_of({"hardware", "list", "--format=json"}), "id", "name");
  names["frameworks"] = hwdb::Frameworks::shipped().ids();
  names["precisions"] = sim::all_names<sim::Precision>();
  names["targets"] = hwdb::launch_targets();
  return names_ = mcp::line_of(names);
}

}  // namespace llmsim::cli::serve
