#include "hwdb/hardware/coefficient_file.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

Coefficient row(const std::string& scope, const std::string& id, const std::string& key,
                double value) {
  return {scope,          id, key, value, std::nullopt, sim::Evidence::Fitted, "s", "runs of 2026",
          Origin::Shipped};
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string keys_in(const std::string& text) {
  std::string keys;
  for (std::size_t at = text.find("\"key\": \""); at != std::string::npos;
       at = text.find("\"key\": \"", at + 1))
    keys += text.substr(at + 8, text.find('"', at + 8) - at - 8) + " ";
  return keys;
}

TEST(CoefficientFile, ARowIsWrittenWithFourDigitsAndWithoutWhatItLacks) {
  EXPECT_EQ(coefficients_json({row("device", "a", "k", 0.123456)}),
            "{\n \"coefficients\": [\n  {\"scope\": \"device\", \"id\": \"a\", \"key\": \"k\", "
            "\"value\": 0.1235, \"evidence\": \"fitted\",\n   \"source\": \"s\", "
            "\"fitted_from\": \"runs of 2026\"}\n ]\n}\n");
}

TEST(CoefficientFile, TheShippedFileKeepsItsLayout) {
  const std::string shipped = text_of(LLMSIM_SOURCE_DIR "/hwdb/facts/coefficients.json");
  EXPECT_EQ(with_fitted_rows(shipped, "f", {}, "no such fit"), shipped);
}

TEST(CoefficientFile, NewRowsStandWithTheirLike) {
  const std::string text = coefficients_json(
      {row("device", "a", "a1", 1), row("device", "b", "b1", 1), row("system", "c", "c1", 1)});
  const std::string merged = with_fitted_rows(
      text, "f",
      {row("device", "a", "a2", 2), row("device", "z", "z1", 2), row("framework", "s", "s1", 2)},
      "other");
  EXPECT_EQ(keys_in(merged), "a1 a2 b1 z1 c1 s1 ");
}

TEST(CoefficientFile, AFitReplacesItsEarlierResultsAndNoOthers) {
  std::vector<Coefficient> rows = {row("device", "a", "again", 1), row("device", "a", "gone", 1),
                                   row("device", "a", "kept", 1)};
  rows[2].fitted_from = "products";
  const std::string merged =
      with_fitted_rows(coefficients_json(rows), "f", {row("device", "a", "again", 2)}, "runs");
  EXPECT_EQ(keys_in(merged), "again kept ");
  EXPECT_NE(merged.find("\"value\": 2.0"), std::string::npos);
}

TEST(CoefficientFile, AnotherTextIsRefused) {
  for (const char* text : {"[]", "{}", "{\"coefficients\": 1}"}) {
    try {
      with_fitted_rows(text, "f.json", {}, "");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "f.json: an object with a list \"coefficients\" is expected");
    }
  }
  try {
    with_fitted_rows(R"({"coefficients": [{"scope": "device", "id": 3, "key": "a"}]})", "f.json",
                     {}, "");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "f.json: coefficients[0]: scope, id, key (and fitted_from) are expected to be texts");
  }
}

}  // namespace
}  // namespace llmsim::hwdb
