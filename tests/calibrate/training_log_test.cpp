// Logs of training programs: what is read of each format, and what logs of many shapes say.
#include "calibrate/training_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "calibrate/log_formats.h"
#include "calibrate/log_summary.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace llmsim::calibrate {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = 1024.0 * kMiB;

// 512 sequences of 4096 tokens, 2097152 tokens, on 64 devices: 32768 tokens of one device a step.
constexpr StepSize kSize{
    .global_batch = 512, .seq_len = 4096, .num_devices = 64, .num_microbatches = 2};

TrainingLog log_of(const std::string& text) {
  TrainingLog log;
  std::istringstream stream(text);
  read_training_log(stream, "train.log", log);
  return log;
}

LogSummary summary_of(const std::string& text) { return summary(log_of(text), kSize); }

bool disagrees(const LogSummary& summary) {
  return std::ranges::any_of(summary.warnings, [](const std::string& warning) {
    return warning.find("check global_batch") != std::string::npos;
  });
}

template <class... Values>
std::string printed(const char* format, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

// --- samples, each after what the project prints ---

// A million steps have three readings each or so: what one says, with what it takes to find it.
TEST(Readings, HoldWhatWasSetAndLittleElse) {
  Readings readings;
  readings.set(Logged::Mfu, Reading{0.4, 0.01});
  readings.set(Logged::StepTime, Reading{2.0, 0.05});
  readings.add(Logged::PartTime, Reading{1.0, 0.05});
  readings.add(Logged::PartTime, Reading{3.0, 0.05});  // phases add up
  readings.add(Logged::Mfu, Reading{0.5, 0.01});       // of others the last counts
  readings.set(Logged::GlobalBatch, std::nullopt);
  EXPECT_EQ(readings[Logged::StepTime]->value, 2.0);
  EXPECT_EQ(readings[Logged::PartTime]->value, 4.0);
  EXPECT_EQ(readings[Logged::Mfu]->value, 0.5);
  EXPECT_FALSE(readings[Logged::Step] || readings[Logged::GlobalBatch]);
  readings.set(Logged::StepTime, std::nullopt);
  readings.set(Logged::PartTime, std::nullopt);
  EXPECT_FALSE(readings.has_time());
  EXPECT_EQ(readings[Logged::Mfu]->value, 0.5);
  EXPECT_LE(sizeof(Readings), 32u);
}

// NVIDIA/Megatron-LM, megatron/training/training.py, training_log and report_memory.  Steps of 30,
// 14 | 10.1 10.0 10.2 10.0 s.
const char* const kMegatron =
    "time to initialize megatron (seconds): 45.123\n"
    "[before the start of training step] datetime: 2025-03-01 12:00:00 \n"
    " [2025-03-01 12:00:30.102030] iteration        1/     100 | consumed samples:          512 | "
    "elapsed time per iteration (ms): 30000.1 | throughput per GPU (TFLOP/s/GPU): 133.1 | learning "
    "rate: 1.500000E-06 | global batch size:   512 | lm loss: 1.189912E+01 | loss scale: 1.0 | "
    "grad norm: 21.502 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    "[Rank 0] (after 1 iterations) memory (MB) | allocated: 20123.25 | max allocated: 40960.0 | "
    "reserved: 45000.0 | max reserved: 45056.0\n"
    "[Rank 8] (after 1 iterations) memory (MB) | allocated: 20123.25 | max allocated: 30720.0 | "
    "reserved: 33000.0 | max reserved: 33792.0\n"
    " [2025-03-01 12:00:44.1] iteration        2/     100 | consumed samples:         1024 | "
    "elapsed time per iteration (ms): 14000.0 | throughput per GPU (TFLOP/s/GPU): 285.3 | global "
    "batch size:   512 | lm loss: 1.18E+01 |\n"
    " [2025-03-01 12:00:54.1] iteration        3/     100 | consumed samples:         1536 | "
    "elapsed time per iteration (ms): 10100.0 | throughput per GPU (TFLOP/s/GPU): 396.0 | global "
    "batch size:   512 | lm loss: 1.17E+01 |\n"
    " [2025-03-01 12:01:04.1] iteration        4/     100 | consumed samples:         2048 | "
    "elapsed time per iteration (ms): 10000.0 | throughput per GPU (TFLOP/s/GPU): 400.0 | global "
    "batch size:   512 | lm loss: 1.17E+01 |\n"
    "  successfully saved checkpoint from iteration       4 to checkpoints\n"
    " [2025-03-01 12:01:14.1] iteration        5/     100 | consumed samples:         2560 | "
    "elapsed time per iteration (ms): 10200.0 | throughput per GPU (TFLOP/s/GPU): 392.0 | global "
    "batch size:   512 | lm loss: 1.16E+01 |\n"
    " [2025-03-01 12:01:24.1] iteration        6/     100 | consumed samples:         3072 | "
    "elapsed time per iteration (ms): 10000.0 | throughput per GPU (TFLOP/s/GPU): 400.0 | global "
    "batch size:   512 | lm loss: 1.16E+01 |\n";

// pytorch/torchtitan, torchtitan/components/metrics.py, MetricsProcessor.log, with its colours:
// tokens/s of one device.  6,554, 6,538 and 6,571 tokens/s are steps of 5.000 5.012 4.987 s.
const char* const kTorchtitan =
    "[rank0]:[titan] 2025-01-10 10:00:00,001 - root - INFO - Training starts at step 1\n"
    "[rank0]:\x1b[32m[titan] 2025-01-10 10:00:10,001 - root - INFO\x1b[39m - \x1b[31mstep:  1  "
    "\x1b[32mloss: 12.2721  \x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[34mmemory: "
    "40.11GiB(50.7%)  \x1b[36mtps: 1,024  \x1b[36mtflops: 59.31  \x1b[35mmfu: 6.00%\x1b[39m\n"
    "[rank0]:\x1b[32m[titan] 2025-01-10 10:00:55,001 - root - INFO\x1b[39m - \x1b[31mstep: 10  "
    "\x1b[32mloss:  9.1721  \x1b[34mmemory: 47.65GiB(60.2%)  \x1b[36mtps: 6,400  \x1b[36mtflops: "
    "370.05  \x1b[35mmfu: 37.42%\x1b[39m\n"
    "[rank0]:\x1b[32m[titan] 2025-01-10 10:01:45,001 - root - INFO\x1b[39m - \x1b[31mstep: 20  "
    "\x1b[32mloss:  8.1721  \x1b[34mmemory: 47.65GiB(60.2%)  \x1b[36mtps: 6,554  \x1b[36mtflops: "
    "379.00  \x1b[35mmfu: 38.32%\x1b[39m\n"
    "[rank0]:\x1b[32m[titan] 2025-01-10 10:02:35,001 - root - INFO\x1b[39m - \x1b[31mstep: 30  "
    "\x1b[32mloss:  7.9721  \x1b[34mmemory: 47.65GiB(60.2%)  \x1b[36mtps: 6,538  \x1b[36mtflops: "
    "378.00  \x1b[35mmfu: 38.22%\x1b[39m\n"
    "[rank0]:\x1b[32m[titan] 2025-01-10 10:03:25,001 - root - INFO\x1b[39m - \x1b[31mstep: 40  "
    "\x1b[32mloss:  7.7721  \x1b[34mmemory: 47.65GiB(60.2%)  \x1b[36mtps: 6,571  \x1b[36mtflops: "
    "380.00  \x1b[35mmfu: 38.42%\x1b[39m\n";

// microsoft/DeepSpeed, deepspeed/utils/timer.py, ThroughputTimer.stop.  102.4 samples/s: 5 s.
const char* const kDeepSpeed =
    "[2023-11-07 01:55:23,711] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=4, "
    "lr=[4.99e-05, 4.99e-05], mom=[(0.9, 0.95), (0.9, 0.95)]\n"
    "[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, "
    "RunningAvgSamplesPerSec=80.025771473496132, CurrSamplesPerSec=102.40000000000001, "
    "MemAllocated=4.32GB, MaxMemAllocated=38.49GB\n"
    "[2023-11-07 01:56:13,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=80/global_step=20, "
    "RunningAvgSamplesPerSec=90.025771473496132, CurrSamplesPerSec=102.40000000000001, "
    "MemAllocated=4.32GB, MaxMemAllocated=38.50GB\n";

// microsoft/DeepSpeed, deepspeed/runtime/engine.py, step, with wall_clock_breakdown.  Of the whole
// step 1000 + 3000 + 500 ms; the first line has no step yet.
const char* const kDeepSpeedTimers =
    "[2024-04-04 09:09:50,313] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 0.00 | "
    "bwd: 0.00 | bwd_inner: 0.00 | bwd_allreduce: 0.00 | step: 0.00\n"
    "[2024-04-04 09:09:53,313] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
    "fwd_microstep: 500.00 | bwd_microstep: 1500.00 | bwd_inner_microstep: 1400.00 | "
    "bwd_allreduce_microstep: 100.00 | step_microstep: 0.10\n"
    "[2024-04-04 09:09:53,313] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
    "fwd_microstep: 500.00 | bwd_microstep: 1500.00 | bwd_inner_microstep: 1400.00 | "
    "bwd_allreduce_microstep: 100.00 | step_microstep: 499.90\n"
    "[2024-04-04 09:09:53,313] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 1000.00 | "
    "bwd: 3000.00 | bwd_inner: 2800.00 | bwd_allreduce: 200.00 | step: 500.00\n";

// microsoft/DeepSpeed, deepspeed/runtime/pipe/engine.py, train_batch.
const char* const kDeepSpeedPipeline =
    "steps: 10 loss: 8.1234 iter time (s): 5.010 samples/sec: 102.196\n"
    "steps: 20 loss: 7.9234 iter time (s): 5.000 samples/sec: 102.400\n"
    "steps: 30 loss: 7.8234 iter time (s): 4.990 samples/sec: 102.605\n";

// mosaicml/composer, composer/loggers/console_logger.py with the callbacks SpeedMonitor and
// MemoryMonitor; 0.2 batches/s, 102.4 samples/s, GB of 10^9 bytes.
const char* const kComposer =
    "[batch=1/100]:\n"
    "\t Train time/batch: 0\n"
    "\t Train time/sample: 0\n"
    "\t Train trainer/device_train_microbatch_size: 4\n"
    "\t Train loss/train/total: 12.0341\n"
    "\t Train time/train: 0.0036\n"
    "[Eval batch=1/3] Eval on eval data\n"
    "[batch=20/100]:\n"
    "\t Train time/batch: 19\n"
    "\t Train memory/peak_allocated_mem: 38.0643\n"
    "\t Train memory/peak_reserved_mem: 44.0643\n"
    "\t Train throughput/batches_per_sec: 0.1969\n"
    "\t Train throughput/samples_per_sec: 100.7994\n"
    "\t Train throughput/device/batches_per_sec: 0.0031\n"
    "\t Train throughput/tokens_per_sec: 412874.3424\n"
    "\t Train throughput/device/tokens_per_sec: 6451.1616\n"
    "\t Train time/train: 0.0319\n"
    "[batch=30/100]:\n"
    "\t Train time/batch: 29\n"
    "\t Train memory/peak_allocated_mem: 38.0643\n"
    "\t Train throughput/batches_per_sec: 0.2000\n"
    "\t Train throughput/samples_per_sec: 102.4000\n"
    "\t Train throughput/tokens_per_sec: 419430.4000\n"
    "\t Train throughput/device/tokens_per_sec: 6553.6000\n"
    "\t Train time/train: 0.0458\n";

// huggingface/nanotron, src/nanotron/trainer.py, train_step_logs, and logging/logger.py; three
// digits, so that 1.02K sequences are 1024 and times are finer in tokens/s.  656 K tokens/s are
// 3.197 s of a step of 2097152 tokens.
const char* const kNanotron =
    "[default0]:07/01/2024 10:00:00 [INFO|DP=0|PP=0|TP=0|node1]:  Memory usage: 4000.00MiB. Peak "
    "allocated 20480.00MiB. Peak reserved: 24576.00MiB\n"
    "[default0]:07/01/2024 10:00:03 [INFO|DP=0|PP=0|TP=0|node1]: iteration: 1 / 100 | "
    "consumed_tokens: 2.1M | elapsed_time_per_iteration_ms: 12.8K | tokens_per_sec: 164K | "
    "tokens_per_sec_per_gpu: 2.56K | global_batch_size: 512 | lm_loss: 10.9 | lr: 0.0001 | "
    "model_tflops_per_gpu: 45.1 | hardware_tflops_per_gpu: 45.1 | grad_norm: 1.2\n"
    "[default0]:07/01/2024 10:00:06 [INFO|DP=0|PP=0|TP=0|node1]: iteration: 2 / 100 | "
    "consumed_tokens: 4.19M | elapsed_time_per_iteration_ms: 3.2K | tokens_per_sec: 656K | "
    "tokens_per_sec_per_gpu: 10.2K | global_batch_size: 512 | lm_loss: 10.8 | lr: 0.0001 | "
    "model_tflops_per_gpu: 180 | hardware_tflops_per_gpu: 180 | grad_norm: 1.1 | "
    "cuda_max_memory_reserved: 30.1G\n"
    "[default0]:07/01/2024 10:00:09 [INFO|DP=0|PP=0|TP=0|node1]: iteration: 3 / 100 | "
    "consumed_tokens: 6.29M | elapsed_time_per_iteration_ms: 3.2K | tokens_per_sec: 656K | "
    "tokens_per_sec_per_gpu: 10.2K | global_batch_size: 512 | lm_loss: 10.7 | lr: 0.0001 | "
    "model_tflops_per_gpu: 180 | hardware_tflops_per_gpu: 180 | grad_norm: 1.1\n";

// huggingface/transformers, src/transformers/trainer_utils.py, speed_metrics, and
// trainer_pt_utils.py, log_metrics.  0.2 steps/s has three decimals, 102.4 samples/s is finer.
const char* const kTrainer =
    "{'loss': 2.9312, 'grad_norm': 1.23, 'learning_rate': 4.9e-05, 'epoch': 0.01}\n"
    "{'loss': 2.8312, 'grad_norm': 1.13, 'learning_rate': 4.8e-05, 'epoch': 0.02}\n"
    "{'eval_loss': 2.7, 'eval_runtime': 12.3, 'eval_samples_per_second': 400.0, "
    "'eval_steps_per_second': 3.1, 'epoch': 0.02}\n"
    "{'train_runtime': 500.1234, 'train_samples_per_second': 102.375, 'train_steps_per_second': "
    "0.2, 'train_loss': 2.81, 'epoch': 0.02}\n"
    "***** train metrics *****\n"
    "  epoch                    =       0.02\n"
    "  train_runtime            = 0:08:20.12\n"
    "  train_samples_per_second =    102.375\n"
    "  train_steps_per_second   =        0.2\n";

// AI-Hypercomputer/maxtext, MaxText/metric_logger.py; 13430 tokens/s of one device are 2.44 s.
const char* const kMaxText =
    "Memstats: After params initialized:\n"
    "completed step: 0, seconds: 40.123, TFLOP/s/device: 11.123, Tokens/s/device: 816.689, "
    "total_weights: 2097152, loss: 12.264\n"
    "completed step: 1, seconds: 2.440, TFLOP/s/device: 180.123, Tokens/s/device: 13429.508, "
    "total_weights: 2097152, loss: 12.264\n"
    "completed step: 2, seconds: 2.442, TFLOP/s/device: 180.023, Tokens/s/device: 13418.510, "
    "total_weights: 2097152, loss: 11.264\n"
    "completed step: 3, seconds: 2.438, TFLOP/s/device: 180.223, Tokens/s/device: 13440.525, "
    "total_weights: 2097152, loss: 11.064\n";

// NVIDIA/NeMo, nemo/lightning/pytorch/callbacks/progress_printer.py.
const char* const kNemo =
    "Training epoch 0, iteration 0/99 | lr: 1.499e-07 | global_batch_size: 512 | global_step: 0 | "
    "reduced_train_loss: 11.03 | train_step_timing in s: 33.1\n"
    "Training epoch 0, iteration 1/99 | lr: 2.999e-07 | global_batch_size: 512 | global_step: 1 | "
    "reduced_train_loss: 11.03 | train_step_timing in s: 5.002 | consumed_samples: 1024\n"
    "Training epoch 0, iteration 2/99 | lr: 4.499e-07 | global_batch_size: 512 | global_step: 2 | "
    "reduced_train_loss: 11.02 | train_step_timing in s: 5.004 | consumed_samples: 1536\n";

const char* const kCsv =
    "step,loss,step_time_s,tokens_per_s_per_device,peak_reserved_bytes\n"
    "1,12.1,20.0,\"1,638\",30000000000\n"
    "2,11.9,5.00,\"6,554\",31000000000\n"
    "3,11.8,5.02,\"6,527\",31000000000\n";

const char* const kJsonLines =
    R"({"step": 1, "loss": 12.1, "step_time_s": 20.0, "peak_allocated_bytes": 3.0e10})"
    "\n"
    R"({"step": 2, "loss": 11.9, "step_time_s": 5.00, "peak_allocated_bytes": 3.1e10})"
    "\n"
    R"({"step": 3, "loss": 11.8, "step_time_s": 5.02, "peak_allocated_bytes": 3.1e10})"
    "\n";

const char* const kWide =
    "\"Step\",\"a - train/step_time\",\"a - train/step_time__MIN\"\n"
    "1,20.0,20.0\n"
    "2,5.00,4.9\n"
    "3,5.02,4.9\n";

const char* const kSpans =
    R"({"rank": 0, "step": 10, "time_us": 1700000050000000, "log_type_name": )"
    "\"collect_dist_metrics_end\", \"value\": 12.5}\n"
    R"({"rank": 0, "step": 20, "time_us": 1700000100000000, "log_type_name": )"
    "\"collect_dist_metrics_end\", \"value\": 12.5}\n"
    "Epoch 1 | iter 1 step 0 | loss train: 2.100, val: n/a | iter time: 353.41 ms remaining\n"
    "Epoch 1 | iter 2 step 1 | loss train: 2.100, val: n/a | iter time: 353.41 ms (step)\n";

const std::vector<std::string> kSamples{kMegatron,
                                        kTorchtitan,
                                        kDeepSpeed,
                                        kDeepSpeedTimers,
                                        kDeepSpeedPipeline,
                                        kComposer,
                                        kNanotron,
                                        kTrainer,
                                        kMaxText,
                                        kNemo,
                                        kCsv,
                                        kJsonLines,
                                        kWide,
                                        kSpans};

// --- numbers ---

TEST(LoggedNumber, HasSeparatorsSuffixesAndUnits) {
  const auto value = [](const char* text, double unit = 1.0) {
    return reading_at(text, unit).value_or(Reading{-1.0, 0.0}).value;
  };
  EXPECT_EQ(value("6,150 tflops"), 6150.0);
  EXPECT_EQ(value("1,234,567.5"), 1234567.5);
  EXPECT_EQ(value("1, 234"), 1.0);
  EXPECT_EQ(value("1,234"), 1234.0);
  EXPECT_EQ(value("1,2345"), 1.0);
  EXPECT_EQ(value("1234,567"), 1234567.0);
  EXPECT_EQ(value("1,234 5"), 1234.0);
  EXPECT_EQ(value("3 K"), 3.0);
  EXPECT_EQ(value("3K8"), 3.0);
  EXPECT_EQ(value("3.2K |"), 3200.0);
  EXPECT_EQ(value("1.31M"), 1.31e6);
  EXPECT_EQ(value("14.25GB", kGiB), 14.25 * kGiB);
  EXPECT_EQ(value("1.5GiB(60.2%)", 1.0), 1.5 * kGiB);
  EXPECT_EQ(value("12.5%"), 0.125);
  EXPECT_EQ(value("1.5E-02"), 0.015);
  EXPECT_EQ(value("2.5ms", 1e-3), 0.0025);
  EXPECT_EQ(value("2G"), 2e9);
  EXPECT_EQ(value("2B"), 2e9);
  EXPECT_EQ(value("2T"), 2e12);
  EXPECT_EQ(value("2T", 1e3), 2e15);
  EXPECT_EQ(value("2M", 1e3), 2e9);
  EXPECT_EQ(value("2KiB"), 2048.0);
  EXPECT_EQ(value("2 MiB"), 2.0 * kMiB);
  EXPECT_EQ(value("2TiB", 7.0), 2048.0 * kGiB);
  EXPECT_EQ(value("2 %", 7.0), 0.02);
  EXPECT_EQ(value("2Mx", 7.0), 14.0);
  EXPECT_EQ(value("-2.5"), -2.5);
  EXPECT_EQ(value("+2.5"), 2.5);
  EXPECT_EQ(value("1.5e+2"), 150.0);
  EXPECT_EQ(value("1.5e2"), 150.0);
  EXPECT_EQ(value("1.5ex"), 1.5);
  EXPECT_EQ(value("1.5e-"), 1.5);
  EXPECT_EQ(value("1.2.3"), 1.2);
  EXPECT_EQ(value("1.234,567"), 1.234);
  EXPECT_EQ(value("1,23"), 1.0);
  EXPECT_EQ(value("1,23x"), 1.0);
  EXPECT_EQ(value(",123"), -1.0);
  EXPECT_EQ(value("5."), 5.0);
  for (const char* none : {"nan", "inf", "", "-", "e5", ",", ".", "K"})
    EXPECT_FALSE(reading_at(none)) << none;
}

TEST(LoggedNumber, RoundingIsHalfAUnitOfTheLastDigit) {
  EXPECT_DOUBLE_EQ(reading_at("6,150")->rounding, 0.5);
  EXPECT_DOUBLE_EQ(reading_at("3.2K")->rounding, 50.0);
  EXPECT_DOUBLE_EQ(reading_at("1.50E-02")->rounding, 0.5e-4);
  EXPECT_DOUBLE_EQ(reading_at("2.44")->relative_rounding(), 0.005 / 2.44);
  EXPECT_DOUBLE_EQ(reading_at("1.50e2")->rounding, 0.5);
  EXPECT_DOUBLE_EQ(reading_at("1.50E+3")->rounding, 5.0);
  EXPECT_DOUBLE_EQ(reading_at("12", 1e-3)->rounding, 0.5e-3);
  EXPECT_DOUBLE_EQ(reading_at("1,234.5")->rounding, 0.05);
  EXPECT_DOUBLE_EQ(reading_at("12.5%")->rounding, 0.05e-2);
  EXPECT_DOUBLE_EQ(reading_at("-12.5")->rounding, 0.05);
}

// --- keys and values, in a format of one's own ---

double value_in(const LogFormat& format, const std::string& line, Logged what = Logged::StepTime) {
  return readings_of(format, line)[what].value_or(Reading{-1.0, 0.0}).value;
}

TEST(LoggedKey, StandsBetweenBorders) {
  const LogFormat format{.name = "", .sign = "", .fields = {{Logged::StepTime, "time"}}};
  for (const char* line : {"time: 5", "a time 5", "(time=5)", "time\t5", "time='5'", "time \"5\"",
                           "lr.time:5", "time: np.float64(5)"})
    EXPECT_EQ(value_in(format, line), 5.0) << line;
  for (const char* line : {"overtime: 5", "times: 5", "OTHERtime: 5", "timeS: 5", "2time: 5",
                           "time2: 5", "a_time: 5", "time_a: 5", "a/time: 5", "time/a: 5",
                           "a-time: 5", "time-a: 5", "time", "time:", "time: none"})
    EXPECT_EQ(value_in(format, line), -1.0) << line;
  // The first place that has a number.
  EXPECT_EQ(value_in(format, "time: n/a, overtime: 3, time: 5, time: 7"), 5.0);
  EXPECT_EQ(value_in({.name = "", .sign = "", .fields = {{Logged::StepTime, "/s"}}}, "a/s: 5"),
            5.0);
}

TEST(LoggedKey, CountsInItsUnitAndMayStandBehindItsNumber) {
  LogFormat format{.name = "", .sign = "", .fields = {{Logged::StepTime, "time", 1e-3}}};
  EXPECT_DOUBLE_EQ(value_in(format, "time: 5"), 5e-3);
  format.fields = {{Logged::StepsPerSecond, "rate", 1.0, "it/s"}};
  EXPECT_EQ(value_in(format, "rate: 5s/it rate: 7it/s", Logged::StepsPerSecond), 7.0);
  format.fields = {{Logged::StepsPerSecond, "", 1.0, "it/s"}};
  EXPECT_EQ(value_in(format, "3 4.5it/s 9it/s", Logged::StepsPerSecond), 4.5);
  EXPECT_EQ(value_in(format, "4.5it/s", Logged::StepsPerSecond), 4.5);
  EXPECT_EQ(value_in(format, "4.5", Logged::StepsPerSecond), -1.0);
  // Below a name, and no other between them.
  format.fields = {{Logged::StepTime, "sum", 1.0, "", "wanted"}};
  EXPECT_EQ(value_in(format, "sum: 3 wanted sum: 5"), 5.0);
  EXPECT_EQ(value_in(format, "sum: 3"), -1.0);
  EXPECT_EQ(value_in(format, "wanted \"name\" sum: 5"), -1.0);
}

TEST(LoggedKey, OfAnObjectIsInQuotesBeforeAColon) {
  LogFormat format{
      .name = "", .sign = "", .layout = LogLayout::Object, .fields = {{Logged::StepTime, "time"}}};
  for (const char* line : {"{\"time\": 5}", "{'time':5}", "{\"time\" \t: \"5\"}"})
    EXPECT_EQ(value_in(format, line), 5.0) << line;
  for (const char* line : {"\"time\": 5", "{time: 5}", "{\"time': 5}", "{\"time\" 5}", "{\"time\"",
                           "{\"a_time\": 5}", "{xtimex: 5}"})
    EXPECT_EQ(value_in(format, line), -1.0) << line;
  format.needed_key = "loss";
  EXPECT_EQ(value_in(format, "{\"time\": 5}"), -1.0);
  EXPECT_EQ(value_in(format, "{\"time\": 5, \"loss\": 1}"), 5.0);
}

TEST(LoggedKey, NeedsTheSignOfItsFormat) {
  const LogFormat format{.name = "", .sign = "train", .fields = {{Logged::StepTime, "time"}}};
  EXPECT_EQ(value_in(format, "train time: 5"), 5.0);
  EXPECT_EQ(value_in(format, "eval time: 5"), -1.0);
}

// Of two spellings the first counts; phases add, and so do their roundings.
TEST(LoggedKey, PartsAddAndSpellingsDoNot) {
  const LogFormat format{.name = "",
                         .sign = "",
                         .fields = {{Logged::StepTime, "time"},
                                    {Logged::StepTime, "seconds"},
                                    {Logged::PartTime, "forward"},
                                    {Logged::PartTime, "backward"},
                                    {Logged::MicroStepTime, "fwd"},
                                    {Logged::MicroStepTime, "bwd"}}};
  const Readings readings =
      readings_of(format, "seconds 7 time 5 forward 1.0 backward 2.25 fwd 0.5 bwd 0.25");
  EXPECT_EQ(readings[Logged::StepTime]->value, 5.0);
  EXPECT_EQ(readings[Logged::PartTime]->value, 3.25);
  EXPECT_DOUBLE_EQ(readings[Logged::PartTime]->rounding, 0.05 + 0.005);
  EXPECT_EQ(readings[Logged::MicroStepTime]->value, 0.75);
  EXPECT_DOUBLE_EQ(readings[Logged::MicroStepTime]->rounding, 0.05 + 0.005);
}

TEST(LoggedBar, HasTheStepAndItsTime) {
  const LogFormat format{
      .name = "", .sign = "", .layout = LogLayout::Bar, .names = {"", "Epoch", "train"}};
  const auto time = [&](const std::string& line) { return value_in(format, line); };
  const std::string rest = "|##  | 2/100 [00:10<08:00,  5.02s/it]";
  EXPECT_EQ(time("  2%" + rest), 5.02);
  EXPECT_EQ(time("Epoch 3:   2%" + rest), 5.02);
  EXPECT_EQ(time("a/Epoch 3:   2%" + rest), -1.0);  // between borders
  EXPECT_EQ(time("my Epoch 3:   2%" + rest), 5.02);
  EXPECT_EQ(time("myEpoch 3:   2%" + rest), -1.0);
  EXPECT_EQ(time("Validation 2%" + rest), -1.0);
  EXPECT_EQ(value_in(format, "  2%" + rest, Logged::Step), 2.0);
  EXPECT_EQ(time("2%|# | 2/100 [00:10<08:00, 5.02s/step, loss=2]"), 5.02);
  EXPECT_EQ(value_in(format, "2%|# | 2/100 [00:10<08:00, 5.5it/s]", Logged::StepsPerSecond), 5.5);
  for (const char* other :
       {"2%|# | 0/100 [00:10<08:00, 5.02s/it]", "2%|# | 2/100 [00:10<08:00, 5.02B/s]",
        "2%|# | 2/100 [00:10, 5.02s/it]", "2%|# | 2/100 00:10<08:00, 5.02s/it",
        "2%|# | 2/100 [00:10<?, ?s/it]", "2%  2/100 [00:10<08:00, 5.02s/it]"})
    EXPECT_EQ(time(other), -1.0) << other;
  EXPECT_FALSE(
      readings_of(format, "2%|# | 2/100 [00:10<08:00, 5.02B/s] s/it")[Logged::Step].has_value());
}

// --- tables ---

const LogFormat& table() {
  return *std::ranges::find(log_formats(), LogLayout::Columns, &LogFormat::layout);
}

TEST(LoggedTable, IsDelimitedByTabsSemicolonsOrCommas) {
  for (const char delimiter : {',', ';', '\t'}) {
    const std::string d(1, delimiter);
    const auto columns = columns_of(table(), "step" + d + " \"step_time_s\" " + d + "loss");
    ASSERT_EQ(columns.size(), 3u) << delimiter;
    EXPECT_EQ(columns[2], nullptr);
    const Readings row = readings_of(columns, "7" + d + " \"5.5\"" + d + "1.0");
    EXPECT_EQ(row[Logged::Step]->value, 7.0);
    EXPECT_EQ(row[Logged::StepTime]->value, 5.5);
    EXPECT_FALSE(readings_of(columns, "7" + d + "5.5").has_time());  // cut off
    EXPECT_FALSE(readings_of(columns, "7" + d + d + "1.0").has_time());
  }
  // A decimal comma within quotes.
  const auto columns = columns_of(table(), "step,step_time_s");
  EXPECT_EQ(readings_of(columns, "7,\"1,234\"")[Logged::StepTime]->value, 1234.0);
}

TEST(LoggedTable, NeedsATimeAndTakesTheFirstColumnOfAKind) {
  EXPECT_TRUE(columns_of(table(), "step,loss").empty());
  const auto columns = columns_of(table(), "step_time_s,step_time_s");
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_NE(columns[0], nullptr);
  EXPECT_EQ(columns[1], nullptr);
}

TEST(LoggedTable, SaysWhyItIsNotRead) {
  const auto why = [](const std::string& header, const std::string& row) {
    return why_no_columns(table(), header, row).value_or("");
  };
  EXPECT_NE(why("step,duration", "1,2").find("none of its columns (step, duration) is"),
            std::string::npos);
  EXPECT_EQ(why("step", "1"), "");                 // no table
  EXPECT_EQ(why("step,7", "1,2"), "");             // no names
  EXPECT_EQ(why("step,duration", "1,2,3"), "");    // another number of cells
  EXPECT_EQ(why("step,duration", "one,two"), "");  // no numbers
  EXPECT_EQ(why("{\"step\": a,b", "1,2"), "");     // an object
  EXPECT_NE(why("step,duration", "one,2"), "");    // one number is enough
  EXPECT_NE(why(",duration", "1,2"), "");          // an index has no name
  const std::string many = why("a,b,c,d,e,f,g", "1,2,3,4,5,6,7");
  EXPECT_NE(many.find("(a, b, c, d, e, f, ...) is"), std::string::npos) << many;
  const std::string six = why("a,b,c,d,e,f", "1,2,3,4,5,6");
  EXPECT_NE(six.find("(a, b, c, d, e, f) is"), std::string::npos) << six;
  const std::string longest(60, 'x');
  EXPECT_NE(why(longest + ",b", "1,2").find("(" + longest + ", b)"), std::string::npos);
  EXPECT_NE(why(longest + "y,b", "1,2").find("(" + longest + "..., b)"), std::string::npos);
  const std::string runs = why("a - step_time_s,b - step_time_s,a - step_time_s", "1,2,3");
  EXPECT_NE(runs.find("of several runs (a, b); export one"), std::string::npos) << runs;
  std::string header, row;
  for (const char* run : {"a", "b", "c", "d", "e", "f", "g", "h"})
    header += std::string(run) + " - step_time_s,", row += "1,";
  EXPECT_NE(why(header + "x", row + "1").find("of several runs (a, b, c, d, e, f); export"),
            std::string::npos);
}

// --- formats ---

TEST(TrainingLog, OfMegatron) {
  const LogSummary s = summary_of(kMegatron);
  EXPECT_EQ(s.format, "Megatron-LM");
  EXPECT_EQ(s.steps, 6U);
  EXPECT_EQ(s.first_step, 1);
  EXPECT_EQ(s.last_step, 6);
  EXPECT_EQ(s.phase.warm_up, 2U);
  EXPECT_DOUBLE_EQ(s.phase.median, 10.05);  // of 10.0 10.0 10.1 10.2
  EXPECT_EQ(s.device_flops_per_second, 398e12);
  EXPECT_EQ(s.peak_allocated->value(), 40960.0 * kMiB);
  EXPECT_EQ(s.peak_reserved->value(), 45056.0 * kMiB);
  EXPECT_FALSE(disagrees(s)) << s.warnings.front();
}

TEST(TrainingLog, OfTorchtitanInColours) {
  const LogSummary s = summary_of(kTorchtitan);
  EXPECT_EQ(s.format, "torchtitan");
  EXPECT_EQ(s.from, Logged::DeviceTokensPerSecond);
  EXPECT_EQ(s.steps_per_line, 10);
  EXPECT_DOUBLE_EQ(s.phase.median, 32768.0 / 6554.0);
  EXPECT_EQ(s.device_tokens_per_second, 6554.0);
  EXPECT_DOUBLE_EQ(*s.mfu, 0.3832);
  EXPECT_EQ(s.peak_reserved->value(), 47.65 * kGiB);
  EXPECT_FALSE(s.peak_allocated);
  EXPECT_EQ(measured(s, 1).step_time_derived_from, "tokens_per_s_per_device");
  EXPECT_EQ(measured(s, 1).memory_scope, "max-rank");
  EXPECT_EQ(measured(s, 4).memory_scope, "last-stage");
}

TEST(TrainingLog, OfDeepSpeed) {
  const LogSummary s = summary_of(kDeepSpeed);
  EXPECT_EQ(s.format, "DeepSpeed");
  EXPECT_EQ(s.last_step, 20);
  EXPECT_NEAR(s.phase.median, 5.0, 1e-12);
  EXPECT_EQ(s.peak_allocated->value(), 38.50 * kGiB);
  EXPECT_EQ(summary_of(kDeepSpeedPipeline).phase.median, 5.0);
  EXPECT_EQ(summary_of(kDeepSpeedPipeline).format, "DeepSpeed pipeline");
}

TEST(TrainingLog, OfDeepSpeedTimersAddsTheirParts) {
  TrainingLog log = log_of(kDeepSpeedTimers);
  ASSERT_EQ(log.streams.size(), 2U);
  std::erase_if(log.streams,
                [](const LogStream& s) { return s.format->name != "DeepSpeed timers"; });
  EXPECT_DOUBLE_EQ(summary(log, kSize).phase.median, 4.5);
}

// Two micro-steps of 2000.1 and 2499.9 ms are a step.
TEST(TrainingLog, OfDeepSpeedMicroTimersAddsMicroBatches) {
  TrainingLog log = log_of(kDeepSpeedTimers);
  std::erase_if(log.streams,
                [](const LogStream& s) { return s.format->name == "DeepSpeed timers"; });
  const LogSummary s = summary(log, kSize);
  EXPECT_EQ(s.steps, 1U);
  EXPECT_DOUBLE_EQ(s.phase.median, 4.5);
}

// The block of the first batch has no rate yet.
TEST(TrainingLog, OfComposer) {
  const LogSummary s = summary_of(kComposer);
  EXPECT_EQ(s.format, "Composer");
  EXPECT_EQ(s.from, Logged::StepsPerSecond);
  EXPECT_EQ(s.last_step, 30);
  EXPECT_NEAR(s.phase.median, (5.0 + 1.0 / 0.1969) / 2.0, 1e-9);
  EXPECT_DOUBLE_EQ(s.peak_allocated->value(), 38.0643e9);
  EXPECT_DOUBLE_EQ(s.peak_reserved->value(), 44.0643e9);
  EXPECT_FALSE(disagrees(s)) << s.warnings.front();
}

// Where nothing but the time since the start is logged: 0.01 hours in 10 batches.
TEST(TrainingLog, OfComposerWithoutRatesHasTheTimeBetweenBlocks) {
  std::string text;
  for (int batch = 10; batch <= 50; batch += 10)
    text += printed("[batch=%d/100]:\n\t Train time/train: %.4f\n", batch, 0.001 * batch);
  EXPECT_NEAR(summary_of(text).phase.median, 3.6, 1e-9);
}

TEST(TrainingLog, OfNanotron) {
  const LogSummary s = summary_of(kNanotron);
  EXPECT_EQ(s.format, "nanotron");
  EXPECT_EQ(s.from, Logged::TokensPerSecond);
  EXPECT_EQ(s.phase.warm_up, 1U);
  EXPECT_DOUBLE_EQ(s.phase.median, 2097152.0 / 656e3);
  EXPECT_EQ(s.peak_allocated->value(), 20480.0 * kMiB);
  EXPECT_DOUBLE_EQ(s.peak_reserved->value(), 30.1e9);
  EXPECT_DOUBLE_EQ(s.rounding, 500.0 / 656e3);
  EXPECT_DOUBLE_EQ(s.noise(), s.rounding);
  EXPECT_FALSE(disagrees(s)) << s.warnings.front();
}

TEST(TrainingLog, OfHuggingFaceTrainerIsTheMeanOfTheRun) {
  const LogSummary s = summary_of(kTrainer);
  EXPECT_EQ(s.format, "Hugging Face Trainer");
  EXPECT_TRUE(s.of_whole_run());
  EXPECT_NEAR(s.phase.median, 512.0 / 102.375, 1e-12);
  ASSERT_EQ(s.warnings.size(), 1U);
  EXPECT_NE(s.warnings.front().find("upper bound"), std::string::npos);
}

TEST(TrainingLog, OfMaxTextNemoCsvAndJsonLines) {
  EXPECT_EQ(summary_of(kMaxText).format, "MaxText");
  EXPECT_EQ(summary_of(kMaxText).phase.median, 2.440);
  EXPECT_EQ(summary_of(kMaxText).phase.warm_up, 1U);
  EXPECT_EQ(summary_of(kNemo).format, "NeMo");
  EXPECT_DOUBLE_EQ(summary_of(kNemo).phase.median, 5.003);
  EXPECT_EQ(summary_of(kCsv).format, "CSV");
  EXPECT_DOUBLE_EQ(summary_of(kCsv).phase.median, 5.01);
  EXPECT_EQ(summary_of(kCsv).device_tokens_per_second, 6540.5);
  EXPECT_EQ(summary_of(kCsv).peak_reserved->value(), 31e9);
  EXPECT_EQ(summary_of(kJsonLines).format, "JSON lines");
  EXPECT_DOUBLE_EQ(summary_of(kJsonLines).phase.median, 5.01);
  EXPECT_EQ(summary_of(kJsonLines).peak_allocated->value(), 31e9);
}

// --- shapes of logs ---

std::string megatron_line(int step, double ms, int batch = 512) {
  return printed(
      " iteration %8d/     500 | consumed samples: %12d | elapsed time per iteration (ms): %.1f | "
      "learning rate: 1.0E-05 | global batch size: %5d | lm loss: 1.0E+01 |\n",
      step, step * batch, ms, batch);
}

std::string steps(int first, int last, double ms, const std::string& label = "") {
  std::string text;
  for (int step = first; step <= last; ++step) text += label + megatron_line(step, ms);
  return text;
}

// Eight steps of a form with two gaps, of the step and of what takes time.
std::string steps_of(const std::string& before, const std::string& between,
                     const std::string& behind, double time) {
  std::string text;
  for (int step = 1; step <= 8; ++step)
    text += before + std::to_string(step) + between + std::to_string(time) + behind + "\n";
  return text;
}

TEST(TrainingLog, OfOtherPrograms) {
  const auto median = [](const std::string& text, const std::string& format) {
    const LogSummary s = summary_of(text);
    EXPECT_EQ(s.format, format);
    return s.phase.median;
  };
  EXPECT_DOUBLE_EQ(median(steps_of("iteration ", "/ 50 | elapsed time per iteration (s): ",
                                   " | global batch size: 512 |", 35.5),
                          "Megatron-LM (seconds)"),
                   35.5);
  EXPECT_DOUBLE_EQ(
      median(steps_of("[step=", "/1000,epoch=0]\n    throughput/device/BPS=", "", 0.5), "OLMo"),
      2.0);
  EXPECT_DOUBLE_EQ(
      median(steps_of("SUCCESS Step ", " | Time: ", "s | Loss: 1.2 | MFU: 31.2%", 5.5), "prime-rl"),
      5.5);
  EXPECT_DOUBLE_EQ(
      median(steps_of("step:", " - train/loss:1.1 - train/time(s):", "", 2.25), "verl"), 2.25);
  EXPECT_DOUBLE_EQ(median(steps_of("{'loss': '2.1', 'global_step/max_steps': '",
                                   "/500', 'train_speed(s/it)': ", "}", 4.5),
                          "JSON lines"),
                   4.5);
}

// Lines of the forms that log_formats.rows names the sources of.
TEST(TrainingLog, OfProgramsOfResearch) {
  const auto median = [](const std::string& text, const std::string& format) {
    const LogSummary s = summary_of(text);
    EXPECT_EQ(s.format, format);
    return s.phase.median;
  };
  EXPECT_DOUBLE_EQ(median(steps_of("I 2026 levanter Progress on:train ", "it/70.0it rate:",
                                   "s/it remaining:1:05:15 elapsed:31:40 postfix:loss=3.1", 76.8),
                          "levanter"),
                   76.8);
  EXPECT_DOUBLE_EQ(
      median(steps_of("Progress on:train ", "it/2.00kit rate:", "it/s remaining:00:10", 4.0),
             "levanter"),
      0.25);
  EXPECT_DOUBLE_EQ(median(steps_of("Epoch 0/9 --- ", "/100 0:00:10 • 0:00:40 ",
                                   "it/s v_num: 0 train_loss: 2.1", 2.5),
                          "Lightning (rich bar)"),
                   0.4);
  EXPECT_DOUBLE_EQ(
      median(steps_of("[step=", "/1000,epoch=0]\n    throughput/device/TPS=", "", 6553.6), "OLMo"),
      5.0);
}

// "tps" is of one device in JSON lines of others.
TEST(TrainingLog, OfNemoAutomodelCountsTheTokensOfAllDevices) {
  const std::string before = "{\"step\": ", between = ", \"mem\": 40.5, \"tps\": ";
  const LogSummary s =
      summary_of(steps_of(before, between, ", \"tps_per_gpu\": 52428.8}", 419430.4));
  EXPECT_EQ(s.format, "NeMo Automodel (JSON lines)");
  EXPECT_DOUBLE_EQ(s.phase.median, 5.0);
  EXPECT_EQ(s.peak_allocated->value(), 40.5 * kGiB);
  EXPECT_DOUBLE_EQ(summary_of(steps_of(before, between, "}", 6553.6)).phase.median, 5.0);
}

TEST(TrainingLog, OfOlmoCoreHasThePeakOfReservedMemory) {
  const LogSummary s =
      summary_of(steps_of("[step=",
                          "/1000,epoch=0]\n    gpu_memory/GPU reserved mem (GiB)=40.5\n"
                          "    throughput/device/MFU=41.5\n    throughput/device/BPS=",
                          "", 0.5));
  EXPECT_EQ(s.peak_reserved->value(), 40.5 * kGiB);
  EXPECT_DOUBLE_EQ(*s.mfu, 0.415);
}

// The time of a step has the wait for samples in it; tokens/s are those of training.
TEST(TrainingLog, OfReinforcementLearningInPrimeRlIsItsTraining) {
  const LogSummary s = summary_of(
      steps_of("SUCCESS Step ", " | 42.50s | Loss 0.1 | Entropy 0.5 | LR 1.0e-06 | Throughput ",
               " tokens/s | MFU 31.2% | Peak Mem. 40.5 GiB", 419430.4));
  EXPECT_EQ(s.format, "prime-rl (reinforcement learning)");
  EXPECT_DOUBLE_EQ(s.phase.median, 5.0);
  EXPECT_EQ(s.peak_reserved->value(), 40.5 * kGiB);
  EXPECT_FALSE(s.peak_allocated);
}

TEST(TrainingLog, OfReinforcementLearningInVerlIsTheWholeLoopAndNotScored) {
  const LogSummary s =
      summary_of(steps_of("step:",
                          " - actor/lr:1e-06 - perf/max_memory_allocated_gb:np.float64(40.5) - "
                          "timing_s/gen:6.5 - timing_s/step:",
                          " - perf/throughput:500.0", 12.5));
  EXPECT_EQ(s.format, "verl (reinforcement learning)");
  EXPECT_DOUBLE_EQ(s.phase.median, 12.5);
  EXPECT_EQ(s.peak_allocated->value(), 40.5 * kGiB);
  ASSERT_EQ(s.warnings.size(), 1U);
  EXPECT_NE(s.warnings[0].find("training with generation and scoring of samples"),
            std::string::npos);
  EXPECT_FALSE(scored(s, measured(s, 1), 1).step_time);
  EXPECT_EQ(
      summary_of(steps_of("{\"step\": ", ", \"data\": {\"timing_s/step\": ", "}}", 12.5)).format,
      "verl (reinforcement learning, JSON lines)");
}

// Four micro-batches, one of them with the update, are a step: 3 x 0.5 + 0.75 s.
TEST(TrainingLog, OfLitgptAddsTheMicroBatchesOfAnUpdate) {
  std::string all, ends;
  for (int iter = 1; iter <= 32; ++iter) {
    const bool update = iter % 4 == 0;
    const std::string line = printed(
        "Epoch 1 | iter %d step %d | loss train: 2.100, val: n/a | iter time: %.2f ms%s remaining "
        "time: 1 day\n",
        iter, iter / 4, update ? 750.0 : 500.0, update ? " (step)" : "");
    all += line;
    if (update) ends += line;
  }
  const LogSummary s = summary_of(all);
  EXPECT_EQ(s.format, "litgpt");
  EXPECT_EQ(s.steps, 8U);
  EXPECT_EQ(s.last_step, 8);
  EXPECT_DOUBLE_EQ(s.phase.median, 2.25);
  EXPECT_NE(error_of([&] { summary_of(ends); }).find("no training step"), std::string::npos);
}

// Clocks of steps 10, 20, ... that are 50 s apart.
TEST(TrainingLog, OfTorchtitansStructuredLogHasTheTimeBetweenPrintedSteps) {
  std::string text;
  for (int step = 10; step <= 80; ++step)
    for (const bool end : {false, true}) {
      if (end && step % 10 != 0) continue;
      text += printed(
          "{\"rank\": 0, \"source\": \"training\", \"step\": %d, \"relative_step\": %d, "
          "\"time_us\": %d000000, \"log_type_name\": \"%s\", \"value\": 12.5, \"seq_id\": 1}\n",
          step, step, 1700000000 + 5 * step, end ? "collect_dist_metrics_end" : "step_end");
    }
  const LogSummary s = summary_of(text);
  EXPECT_EQ(s.format, "torchtitan (structured log)");
  EXPECT_EQ(s.steps_per_line, 10);
  EXPECT_DOUBLE_EQ(s.phase.median, 5.0);
  EXPECT_TRUE(s.by_wall_clock);
}

// The sum and the number of a histogram: two steps of 5 s between two lines.
TEST(TrainingLog, OfMegatronsOpenTelemetryIsTheGrowthOfTheHistogram) {
  std::string text;
  for (int count = 2; count <= 16; count += 2)
    text += printed(
        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":"
        "\"megatron.training.loss\",\"gauge\":{\"dataPoints\":[{\"asDouble\":2.5}]}},{\"name\":"
        "\"megatron.training.step_duration_ms\",\"unit\":\"ms\",\"histogram\":{\"dataPoints\":[{"
        "\"count\":\"%d\",\"sum\":%d}],\"aggregationTemporality\":2}}]}]}]}\n",
        count, 5000 * count + 30000);
  const LogSummary s = summary_of(text);
  EXPECT_EQ(s.format, "Megatron-LM (OpenTelemetry)");
  EXPECT_DOUBLE_EQ(s.phase.median, 5.0);
}

TEST(TrainingLog, OfABarIsOfTrainingAlone) {
  const std::string bar = "/400 [00:10<08:00,  ";
  const auto format = [&](const std::string& before) {
    return summary_of(steps_of(before, bar, "s/it]", 5.0)).format;
  };
  EXPECT_EQ(format("  2%|#   | "), "progress bars");
  EXPECT_EQ(format("Epoch 0:   2%|#   | "), "progress bars");
  EXPECT_EQ(format("1|12|Loss: 1.25:   2%|#   | "), "progress bars");
  EXPECT_DOUBLE_EQ(summary_of(steps_of("  2%|#   | ", bar, "it/s, loss=2]", 4.0)).phase.median,
                   0.25);
  EXPECT_TRUE(log_of(steps_of("Loading checkpoint shards:   2%|#   | ", bar, "s/it]", 5.0))
                  .streams.empty());
}

// What is printed before it is of how the program begins.
TEST(TrainingLog, PeaksCountFromTheFirstStepOn) {
  const std::string peak =
      "after optimizer init: MA 3.62 GB  Max_MA 30.93 GB  CA 31 GB  Max_CA 31 GB\n";
  const std::string steps =
      steps_of("iteration ", "/ 50 | elapsed time per iteration (ms): ", " |", 5000.0);
  EXPECT_FALSE(summary_of(peak + steps).peak_allocated);
  EXPECT_EQ(summary_of(steps + peak).peak_allocated->value(), 30.93 * kGiB);
}

TEST(TrainingLog, ALastLineThatIsCutOffIsLeftOut) {
  const std::string whole = steps(1, 10, 5000.0);
  const LogSummary s = summary_of(whole +
                                  " iteration       11/     500 | elapsed time per "
                                  "iteration (ms): 5");
  EXPECT_EQ(s.steps, 10U);
  EXPECT_EQ(s.phase.slow, 0U);
  EXPECT_EQ(summary_of(whole + megatron_line(11, 5000.0).substr(0, 60)).steps, 10U);
}

TEST(TrainingLog, LinesMayEndInCarriageReturns) {
  std::string text = steps(1, 10, 5000.0);
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 2))
    text.replace(at, 1, "\r\n");
  EXPECT_EQ(summary_of(text).steps, 10U);
}

TEST(TrainingLog, StepsOfARampedUpBatchAreLeftOut) {
  std::string text;
  for (int step = 1; step <= 10; ++step) text += megatron_line(step, 2500.0, 256);
  text += steps(11, 30, 5000.0);
  const LogSummary s = summary_of(text);
  EXPECT_EQ(s.other_batch, 10U);
  EXPECT_DOUBLE_EQ(s.phase.median, 5.0);
}

TEST(TrainingLog, OfAnotherBatchIsRefused) {
  const TrainingLog log = log_of(megatron_line(1, 2500.0, 1024) + megatron_line(2, 2500.0, 1024));
  const std::string error = error_of([&] { summary(log, kSize); });
  EXPECT_NE(error.find("global batch of 1024 sequences, the run training.global_batch = 512"),
            std::string::npos)
      << error;
}

TEST(TrainingLog, ARunThatIsStartedAgainWarmsUpAgain) {
  const std::string text = megatron_line(1, 60e3) + steps(2, 20, 5000.0) + megatron_line(11, 60e3) +
                           megatron_line(12, 20e3) + steps(13, 40, 5000.0);
  const LogSummary s = summary_of(text);
  EXPECT_EQ(s.restarts, 1U);
  EXPECT_EQ(s.phase.warm_up, 4U);
  EXPECT_EQ(s.phase.slow, 0U);
}

TEST(TrainingLog, OfSeveralRanksHasTheSlowestAndNamesStragglers) {
  std::string text;
  for (int step = 1; step <= 12; ++step)
    for (int rank = 0; rank < 4; ++rank)
      text += std::to_string(rank) + ": " + megatron_line(step, rank == 2 ? 5500.0 : 5000.0);
  const LogSummary s = summary_of(text);
  EXPECT_EQ(s.steps, 12U);
  EXPECT_EQ(s.ranks, 4U);
  EXPECT_DOUBLE_EQ(s.phase.median, 5.5);
  ASSERT_EQ(s.stragglers.size(), 1U);
  EXPECT_EQ(s.stragglers[0].rank, "rank 2");
  EXPECT_DOUBLE_EQ(s.stragglers[0].slowdown, 1.1);
}

// Of five ranks the third takes 5.2 s, the first 6, the last 7: four per cent are none.  Of two ranks
// nobody knows which is slow.
TEST(TrainingLog, StragglersAreNamedTheSlowestFirst) {
  const auto stragglers = [](const std::vector<double>& of_ranks) {
    std::string text;
    for (int step = 1; step <= 12; ++step)
      for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
        text += std::to_string(rank) + ": " + megatron_line(step, of_ranks[rank]);
    return summary_of(text).stragglers;
  };
  const std::vector<Straggler> found = stragglers({6e3, 5e3, 5.2e3, 5e3, 5e3, 5e3, 7e3});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].rank, "rank 6");
  EXPECT_DOUBLE_EQ(found[0].slowdown, 1.4);
  EXPECT_EQ(found[1].rank, "rank 0");
  EXPECT_DOUBLE_EQ(found[1].slowdown, 1.2);
  EXPECT_EQ(stragglers({5e3, 5e3, 6e3}).size(), 1U);
  EXPECT_TRUE(stragglers({5e3, 6e3}).empty());
}

TEST(TrainingLog, RanksStandBeforeTheirLines) {
  const auto rank = [](const std::string& before) {
    return log_of(steps(1, 6, 5e3, before)).streams.at(0).rank;
  };
  EXPECT_EQ(rank("[rank3]: "), "3");
  EXPECT_EQ(rank("  [rank12] "), "12");
  EXPECT_EQ(rank("[Rank 3] "), "3");
  EXPECT_EQ(rank("[default3]:"), "3");
  EXPECT_EQ(rank("[1,3]<stdout>:"), "3");
  EXPECT_EQ(rank("3: "), "3");
  for (const char* none : {"", "[rank]: ", "[rankx]: ", "3 ", "[default3] ", "[1,3]", "[2,3]<"})
    EXPECT_EQ(rank(none), "") << none;
}

TEST(TrainingLog, OutOfMemoryIsSaidInManyWays) {
  for (const char* error :
       {"CUDA out of memory.", "HIP out of memory.", "torch.OutOfMemoryError: x",
        "CUDA error: out of memory", "RESOURCE_EXHAUSTED: Out of memory while trying"})
    EXPECT_TRUE(log_of(steps(1, 6, 5e3) + error + "\n").out_of_memory) << error;
  EXPECT_FALSE(log_of(steps(1, 6, 5e3) + "Never run out of memory again\n").out_of_memory);
}

// The largest of all lines, whichever comes last.
TEST(TrainingLog, PeaksAreTheLargestOfAllLines) {
  const auto peak = [](double mib) {
    return printed(
        "[Rank 0] (after 1 iterations) memory (MB) | max allocated: %.1f | max reserved: "
        "%.1f\n",
        mib, 2.0 * mib);
  };
  const LogSummary s = summary_of(steps(1, 6, 5e3) + peak(100.0) + peak(300.0) + peak(200.0));
  EXPECT_EQ(s.peak_allocated->value(), 300.0 * kMiB);
  EXPECT_EQ(s.peak_reserved->value(), 600.0 * kMiB);
  EXPECT_FALSE(summary_of(steps(1, 6, 5e3) + peak(0.0)).peak_allocated);
}

// Two thirds of a line are escape sequences, one of them without an end.
TEST(TrainingLog, ColoursAreLeftOut) {
  std::string text;
  for (int step = 1; step <= 6; ++step) {
    std::string line = megatron_line(step, 5e3);
    line.insert(line.find("5000"), "\x1b[38;2;180;60;0m\x1b[1m");
    line.insert(line.find("elapsed"), "\x1b[0m\x1b");
    text += line;
  }
  EXPECT_EQ(summary_of(text + "\x1b[3").phase.median, 5.0);
}

// Two lines of one program before many of another: what has five steps comes first.
TEST(TrainingLog, AFewLinesOfABetterFormatDoNotCount) {
  std::string text = steps(1, 2, 7e3);
  for (int step = 1; step <= 8; ++step)
    text += printed("completed step: %d, seconds: 2.440, loss: 1\n", step);
  EXPECT_EQ(summary_of(text).format, "MaxText");
  EXPECT_EQ(summary_of(steps(1, 9, 7e3) + text).format, "Megatron-LM");
  // Of few lines each those that are most.
  EXPECT_EQ(summary_of(steps(1, 2, 7e3) + "completed step: 1, seconds: 2.4, loss: 1\n").format,
            "Megatron-LM");
}

TEST(TrainingLog, TwoLinesTellHowManyStepsALineHas) {
  const LogSummary s = summary_of(megatron_line(10, 5e3) + megatron_line(30, 5e3));
  EXPECT_EQ(s.steps_per_line, 20);
  EXPECT_EQ(s.first_step, 10);
  EXPECT_EQ(s.last_step, 30);
  EXPECT_EQ(summary_of(megatron_line(7, 5e3)).steps_per_line, 1);
}

// Of a number that a block has twice the first counts.
TEST(TrainingLog, OfABlockTheFirstNumberCounts) {
  std::string text;
  for (int batch = 10; batch <= 80; batch += 10)
    text += printed(
        "[batch=%d/100]:\n\t Train throughput/batches_per_sec: 0.2000\n"
        "\t Train throughput/batches_per_sec: 0.4000\n",
        batch);
  EXPECT_DOUBLE_EQ(summary_of(text).phase.median, 5.0);
}

// Lines of a program that prints times of its own choice.
std::string lines_with(int steps, int timed) {
  std::string text;
  for (int step = 1; step <= steps; ++step)
    text += printed("{\"step\": %d, \"tokens_per_s\": 419430.4%s}\n", step,
                    step <= timed ? ", \"step_time_s\": 4.000" : "");
  return text;
}

// A number that fewer than half of the steps have is no witness of them.
TEST(TrainingLog, TimesAreOfHalfOfTheStepsAtLeast) {
  EXPECT_DOUBLE_EQ(summary_of(lines_with(10, 10)).phase.median, 4.0);
  EXPECT_DOUBLE_EQ(summary_of(lines_with(10, 5)).phase.median, 4.0);
  EXPECT_DOUBLE_EQ(summary_of(lines_with(10, 4)).phase.median, 5.0);
  EXPECT_DOUBLE_EQ(summary_of(lines_with(11, 5)).phase.median, 5.0);
}

TEST(TrainingLog, FewStepsAndFewDigitsAreSaid) {
  const auto warned = [](const std::string& text, const char* of) {
    const LogSummary s = summary_of(text);
    return std::ranges::any_of(s.warnings, [&](const std::string& warning) {
      return warning.find(of) != std::string::npos;
    });
  };
  const auto line = [](int step, const char* time) {
    return printed("{\"step\": %d, \"step_time_s\": %s}\n", step, time);
  };
  std::string two, three, coarse, fine;
  for (int step = 1; step <= 8; ++step) {
    if (step <= 2) two += line(step, "5.00");
    if (step <= 3) three += line(step, "5.00");
    coarse += line(step, "4"), fine += line(step, "40");
  }
  EXPECT_TRUE(warned(two, "fewer than three steps"));
  EXPECT_FALSE(warned(three, "fewer than three steps"));
  // Half of a second of 4, and of 40: 12.5 and 1.25 %.
  EXPECT_TRUE(warned(coarse, "uncertain by 12.5 %"));
  EXPECT_FALSE(warned(fine, "uncertain"));
  EXPECT_FALSE(scored(summary_of(coarse), measured(summary_of(coarse), 1), 1).step_time);
  EXPECT_TRUE(scored(summary_of(fine), measured(summary_of(fine), 1), 1).step_time);
}

// What is out of memory after its steps ran for a while: its time counts, its peak and outcome do
// not.
TEST(TrainingLog, OutOfMemoryAfterTheStepsIsSaid) {
  const std::string peak =
      "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: 40960.0 |\n";
  const LogSummary s = summary_of(steps(1, 9, 5e3) + peak + "RuntimeError: CUDA out of memory.\n");
  EXPECT_TRUE(s.out_of_memory);
  ASSERT_EQ(s.warnings.size(), 1U);
  EXPECT_NE(s.warnings[0].find("after its last step"), std::string::npos);
  const hwdb::Measured result = measured(s, 1);
  EXPECT_EQ(result.outcome, "oom");
  EXPECT_DOUBLE_EQ(result.step_time->value(), 5.0);
  const hwdb::Scored counts = scored(s, result, 1);
  EXPECT_TRUE(counts.step_time);
  EXPECT_FALSE(counts.memory);
  EXPECT_FALSE(counts.outcome);
  const LogSummary whole = summary_of(steps(1, 9, 5e3) + peak);
  EXPECT_TRUE(scored(whole, measured(whole, 1), 1).memory);
  EXPECT_TRUE(scored(whole, measured(whole, 1), 1).outcome);
  EXPECT_FALSE(scored(whole, measured(whole, 4), 4).memory);  // of whose stage?
}

TEST(TrainingLog, OfEveryKindOfRateIsATime) {
  const auto time = [](const std::string& key, double value) {
    return summary_of(steps_of("{\"step\": ", ", \"" + key + "\": ", "}", value)).phase.median;
  };
  EXPECT_DOUBLE_EQ(time("tokens_per_s", 419430.4), 5.0);
  EXPECT_DOUBLE_EQ(time("tokens_per_s_per_device", 6553.6), 5.0);
  EXPECT_DOUBLE_EQ(time("samples_per_s", 102.4), 5.0);
}

// Every rank of a launcher that puts nothing before lines prints the same.
TEST(TrainingLog, LinesThatRanksRepeatAreOneStep) {
  std::string text;
  for (int step = 1; step <= 12; ++step)
    text += megatron_line(step, 5000.0) + megatron_line(step, 5001.0);
  EXPECT_EQ(summary_of(text).steps, 12U);
  EXPECT_EQ(summary_of(text).restarts, 0U);
}

TEST(TrainingLog, RatesThatContradictTheTimeAreReported) {
  std::string text;
  for (int step = 1; step <= 10; ++step)
    text += printed(
        "completed step: %d, seconds: 2.440, TFLOP/s/device: 180.1, Tokens/s/device: "
        "14000.0, total_weights: 1, loss: 1\n",
        step);
  const LogSummary s = summary_of(text);
  ASSERT_EQ(s.warnings.size(), 1U);
  EXPECT_NE(s.warnings[0].find("0.959 times the printed step time; check global_batch = 512"),
            std::string::npos)
      << s.warnings[0];
  EXPECT_EQ(s.phase.median, 2.44);
}

TEST(TrainingLog, OutOfMemoryWithoutAStepIsAnOutcome) {
  const LogSummary s = summary_of(
      "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has "
      "a total capacity of 79.15 GiB\n");
  EXPECT_FALSE(s.has_time());
  EXPECT_EQ(measured(s, 1).outcome, "oom");
  EXPECT_TRUE(scored(s, measured(s, 1), 1).outcome);
  EXPECT_FALSE(scored(s, measured(s, 1), 1).step_time);
}

// An attempt with too large a batch, and then one that fits.
TEST(TrainingLog, OutOfMemoryBeforeTheStepsIsForgotten) {
  EXPECT_EQ(
      measured(summary_of("RuntimeError: CUDA out of memory.\n" + steps(1, 9, 5e3)), 1).outcome,
      "ok");
}

// Megatron-DeepSpeed prints lines of both; its own are of whole steps.
TEST(TrainingLog, OfSeveralFormatsIsReadInTheBestOne) {
  std::string text;
  for (int step = 1; step <= 8; ++step)
    text +=
        "[2024-04-04 09:09:53] [INFO] [Rank 0] time (ms) | fwd: 1000.00 | bwd: 3000.00 | "
        "bwd_inner: 2800.00 | bwd_allreduce: 200.00 | step: 500.00\n" +
        megatron_line(step, 5000.0);
  EXPECT_EQ(summary_of(text).format, "Megatron-LM");
  EXPECT_EQ(summary_of(text).phase.median, 5.0);
}

class LogFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  std::string refusal(const std::string& path) const {
    return error_of([&] { read_training_logs({path}); });
  }

  const TemporaryFolder folder_;
};

TEST_F(LogFiles, OfOtherStepsFollowEachOther) {
  const TrainingLog log =
      read_training_logs({write("one", steps(1, 20, 5000.0)), write("two", steps(21, 40, 5000.0))});
  const LogSummary s = summary(log, kSize);
  EXPECT_EQ(s.steps, 40U);
  EXPECT_EQ(s.ranks, 1U);
  EXPECT_EQ(s.restarts, 1U);
}

TEST_F(LogFiles, OfTheSameStepsAreOfSeveralRanks) {
  const TrainingLog log = read_training_logs({write("node0.log", steps(1, 20, 5000.0)),
                                              write("node1.log", steps(1, 20, 6000.0)),
                                              write("node2.log", steps(1, 19, 5000.0))});
  const LogSummary s = summary(log, kSize);
  EXPECT_EQ(s.ranks, 3U);
  EXPECT_EQ(s.steps, 20U);
  ASSERT_EQ(s.stragglers.size(), 1U);
  EXPECT_EQ(s.stragglers[0].rank, "node1.log");
}

TEST_F(LogFiles, WithoutAStepAreRefusedWithWhatWasLookedFor) {
  const std::string error = refusal(write("other.log", "hello\nstep by step\n"));
  EXPECT_NE(error.find("other.log: no training step in 2 lines; looked for Megatron-LM (elapsed "
                       "time per iteration (ms)), Megatron-LM (seconds)"),
            std::string::npos)
      << error;
  EXPECT_NE(refusal(write("empty", "")).find("no training step in 0 lines"), std::string::npos);
  EXPECT_NE(refusal(write("log.gz", "\x1f\x8b\x08")).find("unpack it first"), std::string::npos);
  EXPECT_NE(refusal(write("log.zst", "\x28\xb5\x2f\xfd")).find("unpack"), std::string::npos);
  EXPECT_NE(refusal(folder_.path()).find("is a folder"), std::string::npos);
  EXPECT_NE(refusal(folder_ / "none").find("no such file"), std::string::npos);
  EXPECT_NE(refusal("/dev/zero").find("is a device"), std::string::npos);
}

// Weights & Biases: a chart, with its least and largest values.
TEST_F(LogFiles, ExportedByWeightsAndBiasesHaveOneRun) {
  const std::string header = "\"Step\",\"a - train/step_time\",\"a - train/step_time__MIN\"";
  const std::string rows = steps_of("", ",", ",1.0", 5.25);
  const LogSummary s =
      summary(read_training_logs({write("wandb.csv", header + "\n" + rows)}), kSize);
  EXPECT_EQ(s.format, "CSV");
  EXPECT_EQ(s.last_step, 8);
  EXPECT_DOUBLE_EQ(s.phase.median, 5.25);
  EXPECT_NE(
      refusal(write("two.csv", "\"Step\",\"a - train/step_time\",\"b - train/step_time\"\n" + rows))
          .find("no training step in 9 lines; its columns are of several runs (a, b); export "
                "one of them"),
      std::string::npos);
}

TEST_F(LogFiles, ExportedByTensorBoardAreNamedByTheirTag) {
  std::string rows = "Wall time,Step,Value\n";
  for (int step = 10; step <= 80; step += 10)
    rows += printed("%d.25,%d,2.5\n", 1700000000 + 4 * step, step);
  const auto of = [&](const std::string& name) {
    return summary(read_training_logs({write(name, rows)}), kSize);
  };
  EXPECT_EQ(of("run-.-tag-time_step.csv").phase.median, 2.5);
  EXPECT_FALSE(of("run-.-tag-time_step.csv").by_wall_clock);
  EXPECT_EQ(of("run-.-tag-time_metrics_end_to_end_s_.csv").phase.median, 2.5);
  EXPECT_EQ(of("time_step.csv").phase.median, 2.5);
  rows.replace(rows.find("Value"), 5, "train/step_time");
  EXPECT_EQ(of("wide.csv").phase.median, 2.5);
  EXPECT_FALSE(of("wide.csv").by_wall_clock);
  rows.replace(rows.find("train/step_time"), 15, "Value");
  EXPECT_EQ(of("run-.-tag-train_loss.csv").phase.median, 4.0);
  EXPECT_TRUE(of("run-.-tag-train_loss.csv").by_wall_clock);
}

// Rows of 4 s each on a clock: of steps one after the other, of every tenth, or without a number; where
// two rows are of one step there is no time between them.
TEST_F(LogFiles, OfAClockHaveTheTimeBetweenRows) {
  const auto median = [&](int distance, bool numbered) {
    std::string rows = numbered ? "Wall time,Step,Value\n" : "Wall time,Value\n";
    for (int i = 0; i < 9; ++i)
      rows += printed("%d.25,", 1700000000 + 4 * i) +
              (numbered ? std::to_string(distance * i) + "," : "") + "2.5\n";
    const LogSummary s =
        summary(read_training_logs({write("run-.-tag-train_loss.csv", rows)}), kSize);
    EXPECT_TRUE(s.by_wall_clock);
    return s.phase.median;
  };
  EXPECT_DOUBLE_EQ(median(1, true), 4.0);
  EXPECT_DOUBLE_EQ(median(10, true), 0.4);
  EXPECT_DOUBLE_EQ(median(1, false), 4.0);
  EXPECT_NE(error_of([&] { median(0, true); }).find("no training step is read"), std::string::npos);
}

TEST_F(LogFiles, OfUnknownColumnsAreRefusedInWords) {
  const std::string error = refusal(write("t.csv", "step,loss,duration\n1,2.0,5.0\n2,1.9,5.0\n"));
  EXPECT_NE(error.find("none of its columns (step, loss, duration) is a step time or a rate that "
                       "is known, as step_time_s"),
            std::string::npos)
      << error;
}

TEST_F(LogFiles, AreToldByTheirFormat) {
  EXPECT_EQ(training_log_format(write("a", kComposer)), "Composer");
  EXPECT_FALSE(training_log_format(write("b", kJsonLines)));
  EXPECT_FALSE(training_log_format(write("c", "hello\n")));
  EXPECT_FALSE(training_log_format(folder_.path()));
}

// The first rows say nothing that is a table: what stands further below is no header's row.
TEST_F(LogFiles, ATableBeginsWithItsHeader) {
  const std::string error = refusal(write("text.log", "hello, world\nfoo, bar\n1, 2\n3, 4\n"));
  EXPECT_NE(error.find("in 4 lines; looked for"), std::string::npos) << error;
}

// --- damage ---

// Cuts, bytes that flip, lines that move: a summary with numbers that make sense, or one Error.
TEST(TrainingLog, DamagedLogsGiveAnErrorOrASummary) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random()) % most; };
  for (int round = 0; round < 6000; ++round) {
    std::string text = kSamples[below(kSamples.size())];
    if (round % 3 == 0) text += kSamples[below(kSamples.size())];
    for (std::size_t flips = below(12); flips > 0; --flips)
      text[below(text.size())] = static_cast<char>(below(256));
    if (round % 2 == 0) text.erase(below(text.size()), below(200));
    text.resize(text.size() - below(std::min<std::size_t>(text.size(), 100) + 1));
    try {
      const TrainingLog log = log_of(text);
      if (log.streams.empty() && !log.out_of_memory) continue;
      const LogSummary s = summary(log, kSize);
      if (!s.has_time()) continue;
      EXPECT_TRUE(std::isfinite(s.phase.median) && s.phase.median > 0.0) << text;
      EXPECT_TRUE(std::isfinite(s.noise()) && s.noise() >= 0.0) << text;
      EXPECT_LE(s.phase.steps.size() + s.phase.warm_up + s.phase.slow, s.steps) << text;
    } catch (const Error& error) {
      EXPECT_GT(std::string(error.what()).size(), 10U);
    }
  }
}

TEST(TrainingLog, ALineWithoutEndIsNotKept) {
  const std::string text = std::string(5'000'000, 'x') + "\n" + steps(1, 10, 5000.0);
  EXPECT_EQ(summary_of(text).steps, 10U);
}

}  // namespace
}  // namespace llmsim::calibrate
