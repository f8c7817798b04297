#include "cli/serve/admission.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace llmsim::cli::serve {
namespace {

const Place kLocal{"127.0.0.1", 8080};

using Headers = std::map<std::string, std::string>;

// The status of a refusal; 0: admitted.
int refused(const std::string& method, const std::string& path, Headers headers,
            const Place& place = kLocal) {
  headers.try_emplace("host", host_of(place));
  const auto refusal = refusal_of({.method = method, .path = path, .headers = headers}, place);
  return refusal ? refusal->status : 0;
}

TEST(HostOf, AddressesOfVersionSixStandInBrackets) {
  EXPECT_EQ(host_of(kLocal), "127.0.0.1:8080");
  EXPECT_EQ(host_of({"::1", 80}), "[::1]:80");
}

TEST(IsLoopback, IsWhatNoOtherMachineReaches) {
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.1.2.3"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
  EXPECT_FALSE(is_loopback("127.evil.example"));
}

TEST(Admission, TheHostIsTheOneThatIsServed) {
  EXPECT_EQ(refused("GET", "/", {}), 0);
  EXPECT_EQ(refused("GET", "/", {{"host", "localhost:8080"}}), 0);
  for (const char* host :
       {"evil.example:8080", "evil.example", "127.0.0.2:8080", "", "[", "[]:8080", ":8080",
        "127.0.0.1.evil.example:8080", "evil.example:127.0.0.1"})
    EXPECT_EQ(refused("GET", "/", {{"host", host}}), 403) << host;
  // The port of a tunnel.
  EXPECT_EQ(refused("GET", "/", {{"host", "localhost:9000"}}), 0);
  EXPECT_EQ(refused("GET", "/", {{"host", "[::1]:8080"}}, {"::1", 8080}), 0);
}

TEST(Admission, OfAllAddressesAnyNumericHostIsServedAndNoName) {
  const Place all{"0.0.0.0", 8080};
  EXPECT_EQ(refused("GET", "/", {{"host", "10.1.2.3:8080"}}, all), 0);
  EXPECT_EQ(refused("GET", "/", {{"host", "[fd00::1]:8080"}}, all), 0);
  EXPECT_EQ(refused("GET", "/", {{"host", "evil.example:8080"}}, all), 403);
}

TEST(Admission, RefusesRequestsOfOtherSites) {
  EXPECT_EQ(refused("POST", "/ask", {}), 0);  // of no browser
  EXPECT_EQ(refused("POST", "/ask", {{"origin", "http://127.0.0.1:8080"}}), 0);
  EXPECT_EQ(refused("POST", "/ask", {{"origin", "http://evil.example"}}), 403);
  EXPECT_EQ(refused("POST", "/ask", {{"origin", "null"}}), 403);
  EXPECT_EQ(refused("POST", "/ask", {{"sec-fetch-site", "cross-site"}}), 403);
  EXPECT_EQ(refused("GET", "/plan.json", {{"sec-fetch-site", "cross-site"}}), 403);
  EXPECT_EQ(refused("GET", "/plan.json", {{"sec-fetch-site", "same-origin"}}), 0);
  EXPECT_EQ(refused("GET", "/plan.json", {{"sec-fetch-site", "none"}}), 0);  // typed
}

TEST(Admission, ALinkToThePageMayStandAnywhere) {
  const Headers link{{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "navigate"}};
  EXPECT_EQ(refused("GET", "/", link), 0);
  EXPECT_EQ(refused("GET", "/plan.json", link), 403);
  EXPECT_EQ(refused("POST", "/", link), 403);
}

TEST(Admission, OtherMethodsAreNotAllowed) {
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "TRACE", "get"})
    EXPECT_EQ(refused(method, "/", {}), 405) << method;
  EXPECT_EQ(refused("HEAD", "/", {}), 0);
}

}  // namespace
}  // namespace llmsim::cli::serve
