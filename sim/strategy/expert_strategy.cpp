#include "sim/strategy/expert_strategy.h"

namespace llmsim::sim {

const char* name_of(ExpertDispatch dispatch) {
  switch (dispatch) {
    case ExpertDispatch::AllToAll: return "alltoall";
    case ExpertDispatch::AllGather: return "allgather";
    case ExpertDispatch::Deduplicated: return "deepep";
  }
  return "";
}

std::optional<ExpertDispatch> expert_dispatch_named(const std::string& name) {
  if (name == "alltoall") return ExpertDispatch::AllToAll;
  if (name == "allgather") return ExpertDispatch::AllGather;
  if (name == "deepep" || name == "hybridep" || name == "flex") return ExpertDispatch::Deduplicated;
  return std::nullopt;
}

}  // namespace llmsim::sim
