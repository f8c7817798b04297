#include "runtime/parallel/process_place.h"

#include <map>

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

EnvironmentVariables environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

std::string refusal(std::map<std::string, std::string> variables) {
  try {
    process_place(environment(std::move(variables)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ProcessPlace, IsAloneWithoutALauncher) {
  const ProcessPlace place = process_place(environment({}));
  EXPECT_EQ(place.launcher, "none");
  EXPECT_EQ(place.ranks, 1);
  EXPECT_TRUE(place.keeps_store);
}

TEST(ProcessPlace, ReadsTorchrun) {
  std::map<std::string, std::string> variables{{"RANK", "5"},
                                               {"WORLD_SIZE", "8"},
                                               {"LOCAL_RANK", "1"},
                                               {"LOCAL_WORLD_SIZE", "4"},
                                               {"MASTER_ADDR", "node7"},
                                               {"MASTER_PORT", "1234"}};
  const ProcessPlace place = process_place(environment(variables));
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.ranks, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_ranks, 4);
  EXPECT_EQ(place.store_host, "node7");
  EXPECT_EQ(place.store_port, 1234);
  EXPECT_FALSE(place.keeps_store);
  variables["RANK"] = "0";
  EXPECT_TRUE(process_place(environment(variables)).keeps_store);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_FALSE(process_place(environment(variables)).keeps_store);
}

// Job 4200123: port 20000 + 4200123 mod 20000 = 20123.
TEST(ProcessPlace, ReadsSrun) {
  std::map<std::string, std::string> variables{{"SLURM_PROCID", "9"},
                                               {"SLURM_NTASKS", "16"},
                                               {"SLURM_LOCALID", "1"},
                                               {"SLURM_STEP_TASKS_PER_NODE", "8(x2)"},
                                               {"SLURM_STEP_ID", "0"},
                                               {"SLURM_JOB_ID", "4200123"},
                                               {"SLURM_JOB_NODELIST", "gpu[007-012,20],login1"}};
  const ProcessPlace place = process_place(environment(variables));
  EXPECT_EQ(place.launcher, "srun");
  EXPECT_EQ(place.rank, 9);
  EXPECT_EQ(place.ranks, 16);
  EXPECT_EQ(place.local_ranks, 8);
  EXPECT_EQ(place.store_host, "gpu007");
  EXPECT_EQ(place.store_port, 20123);
  // A batch script, which is no step, runs alone.
  variables.erase("SLURM_STEP_ID");
  EXPECT_EQ(process_place(environment(variables)).ranks, 1);
}

TEST(ProcessPlace, ReadsMpirunEvenUnderSlurm) {
  std::map<std::string, std::string> variables{{"OMPI_COMM_WORLD_RANK", "3"},
                                               {"OMPI_COMM_WORLD_SIZE", "4"},
                                               {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                               {"SLURM_PROCID", "0"},
                                               {"SLURM_NTASKS", "1"},
                                               {"SLURM_STEP_ID", "0"}};
  const ProcessPlace place = process_place(environment(variables));
  EXPECT_EQ(place.launcher, "mpirun");
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.store_host, "127.0.0.1");
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_NE(refusal(variables).find("MASTER_ADDR is not set"), std::string::npos);
  variables["MASTER_ADDR"] = "node1";
  EXPECT_EQ(process_place(environment(variables)).store_host, "node1");
}

TEST(ProcessPlace, ReadsHydra) {
  const ProcessPlace place = process_place(environment(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}));
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.local_ranks, 2);
}

TEST(ProcessPlace, ReadsMvapichPalsAndFlux) {
  const ProcessPlace mvapich = process_place(environment({{"MV2_COMM_WORLD_RANK", "1"},
                                                          {"MV2_COMM_WORLD_SIZE", "2"},
                                                          {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                                                          {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_EQ(mvapich.rank, 1);
  EXPECT_EQ(mvapich.local_ranks, 2);
  const ProcessPlace pals = process_place(environment({{"PALS_RANKID", "9"},
                                                       {"PMI_RANK", "9"},
                                                       {"PMI_SIZE", "16"},
                                                       {"PALS_LOCAL_RANKID", "1"},
                                                       {"MASTER_ADDR", "x1000c0s0"}}));
  EXPECT_EQ(pals.launcher, "mpiexec of PALS");
  EXPECT_EQ(pals.rank, 9);
  EXPECT_EQ(pals.local_rank, 1);
  EXPECT_EQ(pals.local_ranks, ProcessPlace::kUnknown);
  const ProcessPlace flux = process_place(environment({{"FLUX_TASK_RANK", "3"},
                                                       {"FLUX_JOB_SIZE", "8"},
                                                       {"FLUX_TASK_LOCAL_ID", "3"},
                                                       {"MASTER_ADDR", "tuolumne1"}}));
  EXPECT_EQ(flux.rank, 3);
  EXPECT_EQ(flux.ranks, 8);
  EXPECT_NE(refusal({{"FLUX_TASK_RANK", "3"}, {"FLUX_JOB_SIZE", "8"}, {"FLUX_TASK_LOCAL_ID", "3"}})
                .find("MASTER_ADDR is not set: with ranks on several nodes flux"),
            std::string::npos);
}

TEST(ProcessPlace, OfPmixAloneIsRefusedInWords) {
  EXPECT_EQ(refusal({{"PMIX_RANK", "2"}}),
            "PMIX_RANK = 2 says which rank this is and not how many there are: set RANK, "
            "WORLD_SIZE and MASTER_ADDR too, or start with torchrun");
}

// Site scripts often set RANK and WORLD_SIZE alone: ranks of a host are those of equal names.
TEST(ProcessPlace, CountsHostsWhereNothingIsSaid) {
  const ProcessPlace told = process_place(environment({{"RANK", "4"}, {"WORLD_SIZE", "6"}}));
  EXPECT_EQ(told.local_ranks, ProcessPlace::kUnknown);
  const std::vector<std::string> hosts{"a", "b", "a", "b", "b", "a"};
  const ProcessPlace place = with_hosts(told, hosts);
  EXPECT_EQ(place.local_rank, 2);
  EXPECT_EQ(place.local_ranks, 3);
  const ProcessPlace known{.rank = 4, .ranks = 6, .local_rank = 1, .local_ranks = 2};
  EXPECT_EQ(with_hosts(known, hosts).local_ranks, 2);
}

// Eight visible devices are one for each rank of a node; where a rank sees its own alone it is 0.
TEST(ProcessPlace, TakesADeviceThatIsVisible) {
  EXPECT_EQ(device_index(3, 8), 3);
  EXPECT_EQ(device_index(3, 1), 0);
  EXPECT_THROW(device_index(0, 0), Error);
}

TEST(ProcessPlace, RefusesWhatCannotBe) {
  EXPECT_NE(refusal({{"RANK", "1"}}).find("WORLD_SIZE is not set"), std::string::npos);
  EXPECT_NE(refusal({{"RANK", "one"}, {"WORLD_SIZE", "2"}}).find("RANK = 'one'"),
            std::string::npos);
  EXPECT_NE(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).find("rank = 2 of 2"), std::string::npos);
  EXPECT_NE(
      refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}).find("above 65535"),
      std::string::npos);
}

TEST(ProcessPlace, FirstHostOfASlurmList) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("nid[001000-001003]"), "nid001000");
  EXPECT_EQ(first_host("rack[2-3]gpu[04,7]"), "rack2gpu04");
}

TEST(ProcessPlace, TheEnvironmentGivesThePlaceBack) {
  const ProcessPlace place{.rank = 1,
                           .ranks = 3,
                           .local_rank = 1,
                           .local_ranks = 3,
                           .store_port = 4567,
                           .keeps_store = false};
  std::map<std::string, std::string> variables;
  for (const std::string& variable : environment_of(place)) {
    variables[variable.substr(0, variable.find('='))] = variable.substr(variable.find('=') + 1);
  }
  const ProcessPlace read = process_place(environment(variables));
  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.ranks, 3);
  EXPECT_EQ(read.store_port, 4567);
  EXPECT_FALSE(read.keeps_store);
}

TEST(LaunchLines, AreThoseOfTheLaunchers) {
  const auto lines =
      launch_lines({"/opt/llmsim-runtime", "--output", "my results.jsonl"}, 2, 8, false);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].line,
            "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d "
            "--rdzv-endpoint=$MASTER_ADDR:29500 --no-python "
            "/opt/llmsim-runtime --output 'my results.jsonl'");
  EXPECT_EQ(lines[1].line,
            "srun --nodes=2 --ntasks-per-node=8 --kill-on-bad-exit=1 /opt/llmsim-runtime --output "
            "'my results.jsonl'");
  EXPECT_EQ(launch_lines({"x"}, 2, 4, true)[1].line,
            "srun --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --kill-on-bad-exit=1 x");
  EXPECT_EQ(lines[2].line,
            "mpirun -np 16 --map-by ppr:8:node -x MASTER_ADDR=$(hostname) -x MASTER_PORT=29500 "
            "/opt/llmsim-runtime --output "
            "'my results.jsonl'");
}

}  // namespace
}  // namespace llmsim::runtime
