// Which requests a local server answers: those of its own pages and of programs of its own machine.
//
// A page of the web can send requests to this machine.  What it could do so, and what is done about
// it: a name of its own that leads here (DNS rebinding) is not the Host that is served; a POST of
// another site has that site's Origin; everything else of another site, as an image or a script,
// says so in Sec-Fetch-Site.  Sources: RFC 9110, 2022; Fetch Metadata Request Headers, W3C, 2025.
#pragma once

#include <optional>
#include <string>

#include "cli/serve/http.h"

namespace llmsim::cli::serve {

struct Place {
  std::string address;  // numeric: "127.0.0.1", "::1", "0.0.0.0" for all of the machine
  int port = 0;
};

// 127.0.0.0/8 and ::1, which no other machine reaches.
bool is_loopback(const std::string& address);

// "127.0.0.1:8080", "[::1]:8080".
std::string host_of(const Place& place);

// Why a request is not answered: 403 for another Host or another site, 405 for other methods than
// GET, HEAD and POST.  Of an address of all of the machine any numeric Host is its own, as names
// are what rebinding needs; and any port is, as one that is forwarded (ssh -L) is another.
std::optional<Refusal> refusal_of(const Request& request, const Place& place);

}  // namespace llmsim::cli::serve
