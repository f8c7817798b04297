#include "cli/serve/form.h"

#include <algorithm>
#include <cctype>

namespace llmsim::cli::serve {
namespace {

constexpr std::size_t kMostParts = 1000;

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

void add_field(Form& form, std::string name, std::string value) {
  if (!value.empty()) form.fields.emplace_back(std::move(name), std::move(value));
}

// "a=1&b=2".
void add_encoded(Form& form, std::string_view text) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    if (equals < pair.size())
      add_field(form, percent_decoded(pair.substr(0, equals)),
                percent_decoded(pair.substr(equals + 1)));
  }
}

// The parameter `name="..."` of a header, in which browsers write %22 for a quotation mark.
std::optional<std::string> parameter_of(std::string_view header, const std::string& name) {
  const std::string before = "; " + name + "=";
  const std::size_t at = header.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view value = header.substr(at + before.size());
  if (value.starts_with('"')) {
    value.remove_prefix(1);
    return std::string(value.substr(0, value.find('"')));
  }
  return std::string(value.substr(0, value.find_first_of("; \r\n")));
}

std::string_view content_disposition(std::string_view head) {
  constexpr std::string_view kName = "content-disposition:";
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(line.size() + 2, head.size()));
    const auto same = [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    };
    if (line.size() >= kName.size() &&
        std::ranges::equal(line.substr(0, kName.size()), kName, same))
      return line;
  }
  return {};
}

// A part: headers, an empty line, a value.  A file that was not chosen has no name.
void add_part(Form& form, std::string_view part) {
  const std::size_t blank = part.find("\r\n\r\n");
  if (blank == std::string_view::npos) throw Refusal{400, "a part of the form has no end"};
  const std::string_view disposition = content_disposition(part.substr(0, blank));
  const auto name = parameter_of(disposition, "name");
  if (!name) throw Refusal{400, "a part of the form has no name"};
  std::string value(part.substr(blank + 4));
  const auto file = parameter_of(disposition, "filename");
  if (!file)
    add_field(form, *name, std::move(value));
  else if (!file->empty())
    form.files.push_back({*name, stored_name(*file), std::move(value)});
}

void add_parts(Form& form, std::string_view body, const std::string& boundary) {
  const std::string line = "\r\n--" + boundary, first = "--" + boundary;
  if (boundary.empty() || !body.starts_with(first)) throw Refusal{400, "the form has no parts"};
  body.remove_prefix(first.size());
  for (std::size_t parts = 0; body.starts_with("\r\n"); ++parts) {
    const std::size_t end = body.find(line);
    if (end == std::string_view::npos || parts == kMostParts)
      throw Refusal{400, "the form has no end, or more than 1000 parts"};
    add_part(form, body.substr(2, std::max<std::size_t>(end, 2) - 2));
    body.remove_prefix(end + line.size());
  }
  if (!body.starts_with("--")) throw Refusal{400, "the form has no end"};
}

bool may_be_stored(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

}  // namespace

std::string Form::value(const std::string& name) const {
  std::string last;
  for (const auto& [field, text] : fields)
    if (field == name) last = text;
  return last;
}

std::vector<const UploadedFile*> Form::files_of(const std::string& field) const {
  std::vector<const UploadedFile*> found;
  for (const UploadedFile& file : files)
    if (file.field == field) found.push_back(&file);
  return found;
}

std::string percent_decoded(std::string_view text) {
  constexpr int kSixteen = 16;
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
    if (text[i] == '%' && high && low) {
      decoded += static_cast<char>(*high * kSixteen + *low);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::string stored_name(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  name.remove_prefix(name.find_last_of("/\\") + 1);
  std::string stored;
  for (const char c : name) stored += may_be_stored(c) ? c : '_';
  // The end says what a file is.
  if (stored.size() > kLongest) stored = stored.substr(stored.size() - kLongest);
  const bool hidden = stored.empty() || stored.front() == '.' || stored.front() == '-';
  return hidden ? "file" + stored : stored;
}

Form form_of(const Request& request) {
  Form form;
  add_encoded(form, request.query);
  if (request.body.empty()) return form;
  const std::string type = request.header("content-type");
  if (type.starts_with("application/x-www-form-urlencoded"))
    add_encoded(form, request.body);
  else if (type.starts_with("multipart/form-data"))
    add_parts(form, request.body, parameter_of(type, "boundary").value_or(""));
  else
    throw Refusal{415, "a form is expected"};
  return form;
}

}  // namespace llmsim::cli::serve
