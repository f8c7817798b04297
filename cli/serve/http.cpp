#include "cli/serve/http.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>

namespace llmsim::cli::serve {
namespace {

namespace http = boost::beast::http;

constexpr std::uint32_t kLargestHead = 16384;

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Refusal refusal_of(const boost::system::error_code& error) {
  if (error == http::error::body_limit) return {413, "the request is too large (--max-request)"};
  if (error == http::error::header_limit) return {431, "the headers are too large"};
  return {400, "no request of HTTP/1.1"};
}

}  // namespace

std::string Request::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

struct RequestReader::Parser {
  http::request_parser<http::string_body> parser;
  std::string unread;  // of the headers, which are parsed when they are whole
};

RequestReader::RequestReader(std::size_t largest_body) : parser_(std::make_unique<Parser>()) {
  parser_->parser.eager(true);
  parser_->parser.header_limit(kLargestHead);
  parser_->parser.body_limit(largest_body);
}

RequestReader::~RequestReader() = default;

bool RequestReader::take(std::string_view piece) {
  auto& [parser, unread] = *parser_;
  unread += piece;
  while (!unread.empty() && !parser.is_done()) {
    boost::system::error_code error;
    const std::size_t parsed = parser.put(boost::asio::buffer(unread), error);
    unread.erase(0, parsed);
    if (error == http::error::need_more && parsed == 0) break;
    if (error && error != http::error::need_more) throw refusal_of(error);
  }
  if (!parser.is_header_done() && unread.size() > kLargestHead)
    throw refusal_of(http::error::header_limit);
  return parser.is_done();
}

bool RequestReader::has_headers() const { return parser_->parser.is_header_done(); }

bool RequestReader::waits_for_continue() const {
  if (!has_headers()) return false;
  const auto& message = parser_->parser.get();
  return lower_case(std::string(message[http::field::expect])) == "100-continue";
}

Request RequestReader::request() const {
  const auto& message = parser_->parser.get();
  const std::string target(message.target());
  if (!target.starts_with('/')) throw Refusal{400, "a path is expected"};
  if (message.count(http::field::host) != 1) throw Refusal{400, "one Host is expected"};
  const std::size_t question = std::min(target.find('?'), target.size());
  Request request{.method = std::string(message.method_string()),
                  .path = target.substr(0, question),
                  .query = question < target.size() ? target.substr(question + 1) : "",
                  .body = message.body()};
  for (const auto& field : message)
    request.headers[lower_case(std::string(field.name_string()))] = std::string(field.value());
  return request;
}

std::string head_of(const Response& response, bool in_pieces) {
  const std::string reason(http::obsolete_reason(http::int_to_status(response.status)));
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " + reason +
                     "\r\nConnection: close\r\nContent-Type: " + response.type +
                     "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer"
                     "\r\nCache-Control: no-store\r\nCross-Origin-Resource-Policy: same-origin\r\n";
  if (!in_pieces) head += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  for (const auto& [name, value] : response.headers)
    head.append(name).append(": ").append(value).append("\r\n");
  return head + "\r\n";
}

}  // namespace llmsim::cli::serve
