// Which cores the ranks of one host compute on.
//
// A rank that is bound to cores of its own finds them free when it has waited for others: else a scheduler may have put their
// threads there, and it waits for a time slice of theirs.
#pragma once

#include <vector>

namespace llmsim::runtime {

// Those that this process may run on.
std::vector<int> allowed_cores();

// The part of `cores` of one of so many ranks: blocks of equal size, what is left over goes to none.  Empty for fewer cores than
// ranks, which are not bound then.
std::vector<int> core_share(const std::vector<int>& cores, int rank, int ranks);

}  // namespace llmsim::runtime
