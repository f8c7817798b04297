#include "hwdb/store/database.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "hwdb/hardware/hardware.h"
#include "hwdb/store/database_check.h"
#include "hwdb/store/page_checksum.h"
#include "hwdb/store/sqlite.h"
#include "sim/base/error.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace llmsim::hwdb {
namespace {

namespace fs = std::filesystem;

class DatabaseFile : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "test.db";
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

Coefficient measured_clock() {
  return {"device",   "h100_sxm", "sustained_clock", 0.9, 0.01, sim::Evidence::Fitted,
          "own runs", "12 runs",  Origin::User};
}

// Makes the file look like the work of an older program whose facts said something else.
void make_outdated(const std::string& path) {
  const sqlite::Connection connection(path, sqlite::Open::Existing);
  connection.execute("UPDATE meta SET value = 'other' WHERE key = 'facts_hash'");
  connection.execute(
      "UPDATE accelerators SET name = 'old' WHERE id = 'h100_sxm' AND origin = 'shipped'");
}

TEST(Database, HoldsAllShippedFacts) {
  const Database database(":memory:");
  // 50 of the reference and Leonardo's custom A100.
  EXPECT_EQ(database.count("accelerators", Origin::Shipped), 59);
  EXPECT_EQ(database.count("systems", Origin::Shipped), 43);
  EXPECT_EQ(database.count("networks", Origin::Shipped), 8);
  EXPECT_EQ(database.count("accelerators", Origin::User), 0);
}

TEST(Database, EveryRowHasASource) {
  const Database database(":memory:");
  for (const HardwareKind kind : {HardwareKind::Accelerator, HardwareKind::System}) {
    for (const HardwareRow& row : database.list(kind))
      EXPECT_NE(row.record.find("\"source\""), std::string::npos) << row.id;
  }
  for (const Coefficient& row : database.coefficients("device", "h100_sxm"))
    EXPECT_FALSE(row.source.empty()) << row.key;
}

TEST(Database, KeepsCurvesWithTheirMeasurement) {
  const Database database(":memory:");
  const auto grids = database.measurements("matmul_grids", "a100_sxm_80");
  ASSERT_FALSE(grids.empty());
  EXPECT_EQ(grids[0].columns, R"(["m","n","k","time_us"])");
  EXPECT_TRUE(grids[0].points.starts_with("[[128,1024,1024,7.92]"));
  EXPECT_EQ(grids[0].record.find("\"rows\""), std::string::npos);
}

TEST(Database, FindsIdsAndAliasesInAnySpelling) {
  const Database database(":memory:");
  const auto id = [&](const char* name) {
    return database.get(HardwareKind::Accelerator, name).id;
  };
  EXPECT_EQ(id("h100_sxm"), "h100_sxm");
  EXPECT_EQ(id("H100"), "h100_sxm");
  EXPECT_EQ(id("h200"), "h200_sxm");
  EXPECT_EQ(id("a100"), "a100_sxm_80");
  EXPECT_EQ(id("a100-40"), "a100_sxm_40");
  EXPECT_EQ(id("v100"), "v100_sxm_32");
  EXPECT_EQ(id("mi250x"), "mi250x_gcd");  // what frameworks see is a GCD
  EXPECT_EQ(id("mi300x"), "mi300x");
  EXPECT_EQ(id("b200"), "b200_sxm");
  EXPECT_EQ(id("GB200"), "gb200");
  EXPECT_EQ(id("RTX-4090"), "rtx4090");
  EXPECT_EQ(id("tpu-v5p"), "tpu_v5p");
}

TEST(Database, SuggestsTheNearestNameForAnUnknownOne) {
  const Database database(":memory:");
  const std::string message = error_of([&] { database.get(HardwareKind::Accelerator, "h10o"); });
  EXPECT_NE(message.find("'h10o'"), std::string::npos) << message;
  EXPECT_NE(message.find("h100"), std::string::npos) << message;
}

TEST_F(DatabaseFile, IsCreatedAndReadAgain) {
  { const Database created(path_); }
  const std::string before = content_of(path_);
  const Database again(path_);
  EXPECT_EQ(again.path(), path_);
  EXPECT_EQ(again.count("accelerators", Origin::Shipped), 59);
  EXPECT_EQ(content_of(path_), before);
}

TEST_F(DatabaseFile, IsCreatedInTheUsersDataFolder) {
  setenv("XDG_DATA_HOME", folder_.path().c_str(), 1);
  EXPECT_EQ(default_database_path(), folder_ / "llmsim/llmsim.db");
  const Database database(default_database_path());
  unsetenv("XDG_DATA_HOME");
  EXPECT_TRUE(fs::exists(folder_ / "llmsim/llmsim.db"));
}

TEST_F(DatabaseFile, ReplacesOutdatedFactsAndKeepsTheUsersRows) {
  {
    Database database(path_, Access::Write);
    database.put_hardware(
        HardwareKind::Accelerator,
        R"({"id": "mine", "name": "Mine", "source": "me", "aliases": ["my-gpu"]})");
    database.put(measured_clock());
    database.put(Measurement{0, "matmul", "mine", sim::Evidence::Measured, "here", Origin::User,
                             "{}", "[\"m\"]", "[[1]]"});
  }
  make_outdated(path_);
  const Database rebuilt(path_);
  EXPECT_EQ(rebuilt.get(HardwareKind::Accelerator, "h100").name, "NVIDIA H100 SXM5 80GB");
  EXPECT_EQ(rebuilt.get(HardwareKind::Accelerator, "my_gpu").id, "mine");
  EXPECT_EQ(rebuilt.count("accelerators", Origin::Shipped), 59);
  EXPECT_EQ(rebuilt.count("measurements", Origin::User), 1);
  EXPECT_EQ(rebuilt.measurements("matmul", "mine").at(0).points, "[[1]]");
  EXPECT_EQ(rebuilt.count("coefficients", Origin::User), 1);
}

TEST_F(DatabaseFile, KeepsFactsOfALaterDate) {
  { const Database database(path_); }
  make_outdated(path_);
  sqlite::Connection(path_, sqlite::Open::Existing)
      .execute("UPDATE meta SET value = '2999-01-01' WHERE key = 'facts_compiled'");
  EXPECT_EQ(Database(path_).get(HardwareKind::Accelerator, "h100").name, "old");
}

TEST_F(DatabaseFile, UserRowsHideShippedOnes) {
  Database database(path_, Access::Write);
  database.put(measured_clock());
  for (const Coefficient& row : database.coefficients("device", "h100_sxm")) {
    if (row.key == "sustained_clock") {
      EXPECT_DOUBLE_EQ(row.value, 0.9);
    }
  }
  database.put_hardware(HardwareKind::Accelerator,
                        R"({"id": "h100_sxm", "name": "Mine", "source": "me"})");
  EXPECT_EQ(database.get(HardwareKind::Accelerator, "h100").name, "Mine");
  EXPECT_EQ(database.list(HardwareKind::Accelerator).size(), 59U);
}

TEST(Database, ForgetsTheCoefficientsOfOneFit) {
  Database database(":memory:");
  Coefficient fitted = measured_clock();
  database.put(fitted);
  fitted.key = "training_rate";
  fitted.fitted_from = "step times of 12 runs";
  database.put(fitted);
  database.forget_fit("step times of ");
  EXPECT_EQ(database.count("coefficients", Origin::User), 1);
  for (const Coefficient& row : database.coefficients("device", "h100_sxm"))
    EXPECT_NE(row.fitted_from, fitted.fitted_from);
}

TEST_F(DatabaseFile, AFailedTransactionLeavesNothing) {
  Database database(path_, Access::Write);
  EXPECT_THROW(database.in_transaction([&] {
    database.put(measured_clock());
    throw Error("no");
  }),
               Error);
  EXPECT_EQ(database.count("coefficients", Origin::User), 0);
}

TEST_F(DatabaseFile, ADamagedFileIsAnErrorAndStaysAsItIs) {
  write(path_, "This is no database, and long enough to be read as one: " + std::string(4096, 'x'));
  const std::string before = content_of(path_);
  const std::string message = error_of([&] { const Database database(path_); });
  EXPECT_NE(message.find(path_), std::string::npos) << message;
  EXPECT_NE(message.find("--db"), std::string::npos) << message;
  EXPECT_EQ(content_of(path_), before);
}

TEST_F(DatabaseFile, ATruncatedFileIsAnErrorAndStaysAsItIs) {
  { const Database database(path_); }
  fs::resize_file(path_, 5000);
  const std::string before = content_of(path_);
  EXPECT_NE(error_of([&] { Database(path_).get(HardwareKind::Accelerator, "h100"); }).find(path_),
            std::string::npos);
  EXPECT_EQ(content_of(path_), before);
}

TEST_F(DatabaseFile, AnotherProgramsDatabaseIsRefused) {
  sqlite::Connection(path_, sqlite::Open::Create).execute("CREATE TABLE theirs(x)");
  const std::string before = content_of(path_);
  EXPECT_NE(error_of([&] { const Database database(path_); }).find("another program"),
            std::string::npos);
  EXPECT_EQ(content_of(path_), before);
}

TEST_F(DatabaseFile, ANewerSchemaIsRefused) {
  { const Database database(path_); }
  sqlite::Connection(path_, sqlite::Open::Existing).execute("PRAGMA user_version = 99");
  const std::string before = content_of(path_);
  EXPECT_EQ(error_of([&] { const Database database(path_); }),
            "database " + path_ +
                ": schema 99 was written by a newer llmsim (this one knows 4); use that one, or "
                "name another file with --db");
  EXPECT_EQ(content_of(path_), before);
}

// A file as the program of schema 1 wrote it, with what its user had put there.
constexpr const char* kFileOfSchema1 = R"sql(
PRAGMA application_id = 0x6c6d7369;
PRAGMA user_version = 1;
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE accelerators(
  id TEXT NOT NULL, origin TEXT NOT NULL CHECK(origin IN ('shipped', 'user')), name TEXT NOT NULL, vendor TEXT, architecture TEXT,
  memory_bytes REAL, memory_bytes_per_s REAL, peak_bf16_flops REAL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY(id, origin));
CREATE TABLE systems(
  id TEXT NOT NULL, origin TEXT NOT NULL CHECK(origin IN ('shipped', 'user')), name TEXT NOT NULL, accelerator TEXT,
  devices_per_node INTEGER, node_bytes_per_s REAL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY(id, origin));
CREATE TABLE aliases(
  kind TEXT NOT NULL CHECK(kind IN ('accelerator', 'system')), alias TEXT NOT NULL, id TEXT NOT NULL, origin TEXT NOT NULL,
  PRIMARY KEY(kind, alias, origin)) WITHOUT ROWID;
CREATE TABLE networks(
  name TEXT NOT NULL, origin TEXT NOT NULL, port_bytes_per_s REAL, latency_s REAL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY(name, origin)) WITHOUT ROWID;
CREATE TABLE measurements(
  id INTEGER PRIMARY KEY, subject TEXT NOT NULL, accelerator TEXT NOT NULL, origin TEXT NOT NULL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, record TEXT NOT NULL);
CREATE INDEX measurements_by_subject ON measurements(subject, accelerator);
CREATE TABLE curves(
  measurement INTEGER PRIMARY KEY REFERENCES measurements(id), columns TEXT NOT NULL, points TEXT NOT NULL);
CREATE TABLE coefficients(
  scope TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, origin TEXT NOT NULL, value REAL NOT NULL, standard_error REAL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, fitted_from TEXT NOT NULL, PRIMARY KEY(scope, id, key, origin)) WITHOUT ROWID;
CREATE VIEW links AS
  SELECT id AS accelerator, origin, json_extract(record, '$.scale_up.kind') AS link,
         json_extract(record, '$.fabric.kind') AS fabric, json_extract(record, '$.fabric.devices') AS devices,
         json_extract(record, '$.scale_up.total_bytes_per_s_per_direction') AS device_bytes_per_s,
         json_extract(record, '$.fabric.pair_bytes_per_s') AS pair_bytes_per_s,
         json_extract(record, '$.pcie.theoretical_bytes_per_s_per_direction') AS host_bytes_per_s, source
  FROM accelerators;
INSERT INTO meta VALUES('facts_hash', 'of then');
INSERT INTO accelerators VALUES('h100_sxm', 'shipped', 'old', '', '', 1, 1, 1, 'data_sheet', 'then', '{"id": "h100_sxm"}');
INSERT INTO accelerators VALUES('mine', 'user', 'Mine', '', '', 1, 1, 1, 'given', 'me', '{"id": "mine", "source": "me"}');
INSERT INTO aliases VALUES('accelerator', 'my_gpu', 'mine', 'user');
INSERT INTO measurements VALUES(1, 'matmul', 'mine', 'user', 'measured', 'here', '{}');
INSERT INTO curves VALUES(1, '["m"]', '[[1]]');
INSERT INTO coefficients VALUES('stack', 'megatron-lm', 'narrow_product_efficiency', 'user', 0.7, 0.1, 'fitted', 'own runs', '');
INSERT INTO coefficients VALUES('device', 'h100_sxm', 'sharing.products', 'user', 0.6, NULL, 'fitted', 'own runs', '');
)sql";

// And as that of schema 2 did.
constexpr const char* kToSchema2 = R"sql(
PRAGMA user_version = 2;
DELETE FROM coefficients;
INSERT INTO coefficients VALUES('device', 'h100_sxm', 'sharing.streaming', 'user', 0.6, NULL, 'fitted', 'own runs', '');
INSERT INTO coefficients VALUES('device', 'h100_sxm', 'streaming.fraction', 'user', 0.8, NULL, 'fitted', 'own runs', '');
)sql";

// "key value" of the user's coefficients.
std::vector<std::string> own_coefficients(const Database& database, const char* scope,
                                          const char* id) {
  std::vector<std::string> own;
  for (const Coefficient& row : database.coefficients(scope, id))
    if (row.origin == Origin::User) own.push_back(row.key + " " + std::to_string(row.value));
  return own;
}

std::int64_t schema_of(const std::string& path) {
  const sqlite::Connection connection(path, sqlite::Open::ReadOnly);
  sqlite::Statement version(connection, "PRAGMA user_version");
  version.step();
  return version.integer(0);
}

TEST_F(DatabaseFile, OfSchema1IsMigratedWithWhatItsUserPutThere) {
  sqlite::Connection(path_, sqlite::Open::Create).execute(kFileOfSchema1);
  {
    const Database database(path_);
    EXPECT_EQ(own_coefficients(database, "framework", "megatron-lm"),
              std::vector<std::string>{"low_precision_gemm_efficiency 0.700000"});
    EXPECT_EQ(own_coefficients(database, "device", "h100_sxm"),
              std::vector<std::string>{"sharing.gemms 0.600000"});
    EXPECT_EQ(database.get(HardwareKind::Accelerator, "my-gpu").name, "Mine");
    EXPECT_EQ(database.measurements("matmul", "mine").at(0).points, "[[1]]");
    EXPECT_EQ(database.get(HardwareKind::Accelerator, "h100").name, "NVIDIA H100 SXM5 80GB");
  }
  EXPECT_EQ(schema_of(path_), 4);
  const std::string migrated = content_of(path_);
  { const Database again(path_); }
  EXPECT_EQ(content_of(path_), migrated);
}

TEST_F(DatabaseFile, OfSchema2IsMigrated) {
  sqlite::Connection(path_, sqlite::Open::Create).execute(std::string(kFileOfSchema1) + kToSchema2);
  const Database database(path_);
  EXPECT_EQ(own_coefficients(database, "device", "h100_sxm"),
            (std::vector<std::string>{"memory_bound.fraction 0.800000",
                                      "sharing.memory_bound 0.600000"}));
}

// But for the place that its pages have for checksums.
TEST_F(DatabaseFile, AMigrationThatFailsLeavesTheFileAsItIs) {
  sqlite::Connection(path_, sqlite::Open::Create)
      .execute(std::string(kFileOfSchema1) + "DROP TABLE aliases;");
  EXPECT_NE(error_of([&] { const Database database(path_); }).find(path_), std::string::npos);
  EXPECT_EQ(schema_of(path_), 1);
  const sqlite::Connection connection(path_, sqlite::Open::ReadOnly);
  sqlite::Statement scopes(connection, "SELECT group_concat(scope) FROM coefficients");
  scopes.step();
  EXPECT_EQ(scopes.text(0), "device,stack");
  EXPECT_TRUE(damaged_pages(path_).empty());
}

// Everything that a prediction on a device takes from a database, as one text.
std::string facts_of(const std::string& path) {
  const Database database(path);
  std::string text = database.version();
  for (const sim::Fact& fact : cluster(database, "h100", 16).facts)
    text += "\n" + fact.key + " " + fact.value + " " + fact.source;
  return text;
}

void flip(const std::string& path, std::size_t bit) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto at = static_cast<std::streamoff>(bit / 8);
  const int byte = file.seekg(at).get();
  file.seekp(at).put(static_cast<char>(byte ^ 1 << bit % 8));
}

// Whatever bit of a file flips, an answer is the one of before or an Error that names the file.
TEST_F(DatabaseFile, AFlippedBitIsNeverBelieved) {
  { Database(path_, Access::Write).put(measured_clock()); }
  const std::string whole = content_of(path_), answer = facts_of(path_);
  ASSERT_TRUE(has_checksums(path_));
  ASSERT_EQ(check_database(path_).damages, std::vector<std::string>());
  constexpr std::size_t kHeader = std::size_t{100} * 8;
  std::vector<std::size_t> bits;
  for (std::size_t bit = 0; bit < kHeader; bit += 5) bits.push_back(bit);
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) bits.push_back(random() % (whole.size() * 8));
  int refused = 0;
  for (const std::size_t bit : bits) {
    flip(path_, bit);
    const auto pages = damaged_pages(path_);
    const auto page = static_cast<std::int64_t>(bit / 8 / 4096 + 1);
    EXPECT_TRUE(pages == std::vector<std::int64_t>{page} || bit < kHeader) << bit;
    std::string found;
    const std::string message = error_of([&] { found = facts_of(path_); });
    if (message.empty()) {
      EXPECT_EQ(found, answer) << bit;
    } else {
      ++refused;
      EXPECT_TRUE(message.starts_with("database " + path_ + ": is ")) << bit << message;
      EXPECT_NE(message.find("--db"), std::string::npos) << message;
    }
    flip(path_, bit);
  }
  EXPECT_EQ(content_of(path_), whole);
  EXPECT_GE(refused, 130);
  flip(path_, whole.size() * 4);
  const DatabaseCheck check = check_database(path_);
  EXPECT_EQ(check.damages.at(0).substr(0, 5), "page ");
}

TEST_F(DatabaseFile, AFolderIsRefused) {
  EXPECT_NE(error_of([&] { const Database database(folder_.path()); }).find("is a directory"),
            std::string::npos);
}

// A named file is what the reader wants; the default one is a convenience.
TEST_F(DatabaseFile, WhereNothingCanBeWrittenReadersOfTheDefaultGetTheShippedFactsAndOneWarning) {
  const std::string nowhere = folder_ / "missing/test.db";
  EXPECT_EQ(error_of([&] { const Database reader(nowhere); }),
            "database " + nowhere + ": cannot be opened: No such file or directory");
  EXPECT_NE(error_of([&] { const Database writer(nowhere, Access::Write); }).find(nowhere),
            std::string::npos);
  write(folder_ / "file", "no folder");
  setenv("XDG_DATA_HOME", (folder_ / "file").c_str(), 1);
  testing::internal::CaptureStderr();
  const Database database;
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_EQ(database.path(), ":memory:");
  EXPECT_EQ(database.count("systems", Origin::Shipped), 43);
  EXPECT_NE(warning.find(folder_ / "file/llmsim/llmsim.db"), std::string::npos);
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
}

TEST_F(DatabaseFile, ADeviceIsRefused) {
  EXPECT_EQ(error_of([] { const Database database("/dev/zero"); }),
            "database /dev/zero: is a device or pipe; give the path of a file");
}

TEST_F(DatabaseFile, AReadOnlyFileIsReadWithTheUsersRows) {
  { Database(path_, Access::Write).put(measured_clock()); }
  fs::permissions(path_, fs::perms::owner_read);
  const uid_t user = geteuid();
  if (user == 0) {  // permissions do not bind root
    fs::permissions(folder_.path(), fs::perms::group_exec | fs::perms::others_exec,
                    fs::perm_options::add);
    fs::permissions(path_, fs::perms::group_read | fs::perms::others_read, fs::perm_options::add);
    ASSERT_EQ(seteuid(65534), 0);
  }
  std::int64_t rows = -1;
  std::string message;
  try {
    rows = Database(path_).count("coefficients", Origin::User);
    message = error_of([&] { const Database writer(path_, Access::Write); });
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  ASSERT_EQ(seteuid(user), 0);
  EXPECT_EQ(rows, 1);
  EXPECT_NE(message.find("cannot be written"), std::string::npos) << message;
}

TEST_F(DatabaseFile, SeveralProcessesMayCreateItAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        _exit(Database(path_).count("accelerators", Origin::Shipped) == 59 ? 0 : 1);
      } catch (...) {
        _exit(2);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(Database(path_).count("accelerators", Origin::Shipped), 59);
}

}  // namespace
}  // namespace llmsim::hwdb
