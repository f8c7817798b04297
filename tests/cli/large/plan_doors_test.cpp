// A plan that is saved and predicted gives what the plan said.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/run_request.h"
#include "reports/prediction.h"
#include "sim/plan.h"
#include "tests/cli/answer.h"

namespace llmsim {
namespace {

struct Planned {
  const char *model, *hardware, *framework, *precision, *gpus;
};

TEST(PlanDoors, EveryPlanEqualsItsPrediction) {
  int compared = 0;
  for (const Planned& p : {Planned{"llama-70b", "h100", "megatron-deepspeed", "fp8", "16"},
                           Planned{"llama-8b", "a100", "megatron-lm", "bf16", "8"},
                           Planned{"llama-8b", "h100", "deepspeed", "bf16", "8"},
                           Planned{"gpt2-xl", "v100", "pytorch", "fp16", "8"},
                           Planned{"llama-8b", "mi300x", "torchtitan", "bf16", "8"},
                           Planned{"llama-8b", "h100", "torchtitan", "fp8", "16"},
                           Planned{"mixtral-8x7b", "h100", "nemo", "bf16", "16"}}) {
    cli::RunOptions options{.model = p.model};
    options.gpus = p.gpus, options.hardware = p.hardware, options.framework = p.framework,
    options.strategy["precision"] = p.precision;
    sim::PlanQuery query = cli::query_of(options, database());
    query.top = 40;
    const sim::Plan plan = sim::plan(query);
    std::vector<sim::Prediction> plans = plan.plans;
    for (const auto& more : {plan.dearer, plan.others, plan.pareto})
      plans.insert(plans.end(), more.begin(), more.end());
    if (plan.tight) plans.push_back(*plan.tight);
    for (const sim::Prediction& planned : plans) {
      const std::string saved = reports::run_text(planned);
      EXPECT_EQ(answer_of_text(saved), answer_of(planned)) << saved;
      ++compared;
    }
  }
  EXPECT_GT(compared, 200);
}

}  // namespace
}  // namespace llmsim
