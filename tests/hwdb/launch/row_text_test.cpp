#include "hwdb/launch/row_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/input_file.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

LaunchTable table(const std::string& text) { return table_of_text(text, "some.rows"); }

LaunchValues read(const std::string& text, const LaunchValues& file, const LaunchValues& run = {}) {
  return read_row(table(text).rows.at(0), file, run).fields;
}

// "KEY = VALUE, ..." that a row writes.
std::string written(const std::string& text, const LaunchValues& run) {
  std::string all;
  for (const LaunchEntry& entry : written_row(table(text).rows.at(0), run))
    all += (all.empty() ? "" : ", ") + entry.key + " = " + entry.value;
  return all;
}

std::string error_in(const std::string& text) {
  return error_of([&] { table(text); });
}

TEST(RowText, ALineCopiesAKeyBothWaysWithItsDefault) {
  const std::string row = "--tensor-parallel (1) <-> tp";
  EXPECT_EQ(read(row, {{"--tensor-parallel", "8"}}), (LaunchValues{{"tp", "8"}}));
  EXPECT_EQ(read(row, {}), (LaunchValues{{"tp", "1"}}));
  EXPECT_EQ(written(row, {{"tp", "4"}}), "--tensor-parallel = 4");
}

TEST(RowText, AnArrowOfOneWayIsReadOrWrittenAlone) {
  EXPECT_EQ(read("size -> micro_batch", {{"size", "2"}}), (LaunchValues{{"micro_batch", "2"}}));
  EXPECT_EQ(written("size <- micro_batch", {{"micro_batch", "2"}}), "size = 2");
}

TEST(RowText, CasesStandBelowTheirKeys) {
  const std::string row =
      "# FSDP and DDP\n"
      "kind: type (none)\n"
      "shards <-> sharding\n"
      "    kind = ddp                <->  none\n"
      "    kind = fsdp, shards = $   <->  hsdp, shard_size = $   when tp = 1\n"
      "    kind = fsdp, shards = *   ->   zero3\n";
  EXPECT_EQ(read(row, {{"type", "ddp"}}), (LaunchValues{{"sharding", "none"}}));
  EXPECT_EQ(read(row, {{"type", "fsdp"}, {"shards", "4"}}, {{"tp", "1"}}),
            (LaunchValues{{"sharding", "hsdp"}, {"shard_size", "4"}}));
  EXPECT_EQ(read(row, {{"type", "fsdp"}, {"shards", "4"}}, {{"tp", "2"}}),
            (LaunchValues{{"sharding", "zero3"}}));
  EXPECT_EQ(written(row, {{"sharding", "none"}}), "type = ddp");
}

TEST(RowText, AlternativesAreCasesAndALineMayGoOn) {
  const LaunchTable rows = table(
      "format <-> precision\n"
      "    fp8|e4m3  ->  fp8,\n"
      "        fp8_recipe = current\n");
  ASSERT_EQ(rows.rows.at(0).cases.size(), 2U);
  EXPECT_EQ(rows.rows[0].cases[1].file[0].value, "e4m3");
  EXPECT_EQ(rows.rows[0].cases[1].run[1].value, "current");
}

TEST(RowText, AFormHasTheCasesOfSeveralRows) {
  const std::string form = "form flag (false)\n    true  <->  true\n          <->  false\n";
  const LaunchTable rows = table(form + "flag --a <-> compile\nflag --b <-> gradient_overlap\n");
  ASSERT_EQ(rows.rows.size(), 2U);
  EXPECT_EQ(written_row(rows.rows[1], {{"gradient_overlap", "true"}}).at(0).key, "--b");
  EXPECT_EQ(read_row(rows.rows[1], {}, {}).fields.at("gradient_overlap"), "false");
}

TEST(RowText, TermsMayHaveAName) {
  const std::string row =
      "let whole: recompute.every_n = !, recompute.blocks = !\n"
      "--remat <-> recompute.kind\n"
      "    full  <->  full, @whole\n";
  EXPECT_EQ(written(row, {{"recompute.kind", "full"}}), "--remat = full");
  EXPECT_EQ(error_of([&] {
              written(row, {{"recompute.kind", "full"}, {"recompute.blocks", "2"}});
            }),
            "recompute.kind = full, recompute.blocks = 2");
}

TEST(RowText, NamesInOneValueAreWrittenAsTheFileHasThem) {
  const std::string row =
      "targets <-> model.lora.targets\n"
      "    list in brackets: linear_q = q, linear_v = v\n"
      "    $  <->  $\n";
  EXPECT_EQ(written(row, {{"model.lora.targets", "q+v"}}), "targets = [linear_q, linear_v]");
  EXPECT_EQ(read(row, {{"targets", "linear_v, linear_q"}}),
            (LaunchValues{{"model.lora.targets", "v+q"}}));
}

TEST(RowText, ListsOfKeysHaveAReason) {
  const LaunchTable lists = table(
      "harmless logging\n    --log-* --wandb\n"
      "refused windows\n    --window, --skip = \"\", --softmax = vanilla\n");
  EXPECT_EQ(lists.harmless, (std::vector<std::string>{"--log-*", "--wandb"}));
  ASSERT_EQ(lists.refused.size(), 3U);
  EXPECT_EQ(lists.refused[0].value, kAbsent);
  EXPECT_EQ(lists.refused[1].value, "");
  EXPECT_EQ(lists.refused[2].value, "vanilla");
}

TEST(RowText, ProgramsOfOtherKindsSayWhatTheyTrain) {
  const LaunchTable others = table("programs of other kinds\n    t5    an encoder and a decoder\n");
  ASSERT_EQ(others.programs.size(), 1U);
  EXPECT_EQ(others.programs[0].key, "t5");
  EXPECT_EQ(others.programs[0].value, "an encoder and a decoder");
  EXPECT_EQ(error_in("programs\n    t5\n"),
            "some.rows: line 2: t5: what such a program trains is missing");
}

TEST(RowText, ReleasesHaveDatesTheOldestFirst) {
  const LaunchTable dated =
      table("releases Some Program\n    0.9   2025-12-05\n    0.10  2026-02-26\n");
  ASSERT_TRUE(dated.releases.has_value());
  EXPECT_EQ(dated.releases->program, "Some Program");
  ASSERT_EQ(dated.releases->all.size(), 2U);
  EXPECT_EQ(dated.releases->all[1].key, "0.10");
  EXPECT_EQ(dated.releases->all[1].value, "2026-02-26");
  EXPECT_EQ(error_in("releases P\n    0.9\n"), "some.rows: line 2: 0.9: its date is missing");
  EXPECT_EQ(error_in("releases P\n    2  2026-01-01\n    1  2025-01-01\n"),
            "some.rows: line 3: 1: is older than the one above");
}

TEST(RowText, AWrongRowIsNamedByItsLine) {
  EXPECT_EQ(error_in("# a comment\n--tp <-> tensor"),
            "some.rows: line 2: tensor: no field of a run");
  EXPECT_EQ(error_in("a\nb <-> tp\n    a = $, c = 1  <->  $\n"),
            "some.rows: line 3: c: no key of this row");
  EXPECT_EQ(error_in("a\nb <-> tp\n    a = $  <->  $\n"),
            "some.rows: line 1: b: in no case of its row");
  EXPECT_EQ(error_in("a\nb <-> tp\n    1  <->  $\n"),
            "some.rows: line 3: 1: NAME = VALUE is expected");
  EXPECT_EQ(error_in("a <-> tp\n    $2  <->  $\n"),
            "some.rows: line 2: tp = $: stands on one side alone");
  EXPECT_EQ(error_in("--a"), "some.rows: line 1: KEY <-> FIELD is expected, or cases below");
  EXPECT_EQ(error_in("--a <-> tp\n    1 <-> @one\n"),
            "some.rows: line 2: @one: no \"let\" of that name stands above");
  EXPECT_EQ(error_in("flg --a <-> tp"),
            "some.rows: line 1: flg --a: NAME: KEY (DEFAULT) is expected");
  EXPECT_EQ(error_in("include nothing"),
            "some.rows: line 1: nothing.rows: not part of the program");
  EXPECT_EQ(error_in("harmless\n    --log"), "some.rows: line 1: a reason is missing");
  EXPECT_EQ(error_in("refused windows\n--window <-> tp"),
            "some.rows: line 1: keys are expected below");
}

TEST(RowText, TheExampleOfItsPageIsOfTheForm) {
  const std::string page = content_of_file(LLMSIM_SOURCE_DIR "/hwdb/launch/README.md");
  const std::size_t begin = page.find("```\n") + 4;
  const LaunchTable rows = table(page.substr(begin, page.find("```", begin) - begin));
  ASSERT_EQ(rows.rows.size(), 4U);
  EXPECT_EQ(rows.rows[3].cases.size(), 4U);
  EXPECT_EQ(rows.rows[3].defaults.size(), 2U);
}

// Each file is of the form, its fields are those of runs, and no key is in two lists.
TEST(RowText, ShippedFilesAreRead) {
  for (const ShippedText& file : shipped_launch_rows()) {
    const LaunchTable& rows = shipped_table(std::string(file.name));
    EXPECT_FALSE(rows.rows.empty() && rows.never.empty()) << file.name;
    for (const Term& refused : rows.refused)
      EXPECT_EQ(std::count(rows.harmless.begin(), rows.harmless.end(), refused.key), 0)
          << file.name << ": " << refused.key;
    const std::vector<std::string> known = keys_of(rows.rows);
    for (const NotedKey& noted : rows.noted)
      EXPECT_EQ(std::count(known.begin(), known.end(), noted.off.key), 0)
          << file.name << ": " << noted.off.key;
    for (const std::string& key : rows.harmless)
      EXPECT_EQ(std::count(known.begin(), known.end(), key), 0) << file.name << ": " << key;
  }
}

}  // namespace
}  // namespace llmsim::hwdb
