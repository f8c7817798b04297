// Who takes part in a run and on which host, and, when an operation fails, whose fault it is.
//
// A rank whose operation got no answer posts for whom it waited.  Ranks that it waited for may
// themselves have waited for others: the culprits stand where these chains end, ranks that
// posted nothing because they are dead or hang.
//
// A rank that is alive but cannot go on with what the ranks do together (it ran out of memory)
// gives up: it says so here, then leaves its groups.  The others get no answer from it, read here
// why, leave theirs, and all begin again with new groups.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/parallel/key_store.h"

namespace llmsim::runtime {

class RollCall {
 public:
  RollCall(KeyStore store, int rank, int size, std::string host);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const KeyStore& store() const { return store_; }

  // A name for a further group of these ranks, the same on each of them when they
  // call in the same order.
  std::string group_name(const std::vector<int>& ranks);

  // Returns when all of `ranks` have come to `key`, each with the name of its host; throws Error
  // that names those missing.  The last one to come gathers the names: each of n ranks asks the
  // store a few times, and not n times.
  void meet(const std::string& key, const std::vector<int>& ranks,
            std::chrono::milliseconds patience);

  // Tells the others that this rank waited for `missing` in vain; then follows the chains, giving
  // the others `grace` to post. `missing` itself where the ranks wait for one another in a circle,
  // or where the store is gone too.
  std::vector<int> culprits(const std::vector<int>& missing, std::chrono::milliseconds grace);

  // This rank gives up; which have since the ranks began.
  void give_up();
  std::vector<int> gave_up();
  // Called by every rank when one has given up: what has been posted counts no more, and groups
  // have new names.
  void begin_again();

  // "rank 3 (node7)", "ranks 1 (node7), 3 (node8)".
  std::string names(const std::vector<int>& ranks) const;
  std::string host_of(int rank) const;  // "never came" for a rank that was not met

 private:
  std::string all_hosts(const std::string& key, const std::vector<int>& ranks);
  std::vector<int> missing_at(const std::string& key, const std::vector<int>& ranks);

  KeyStore store_;
  int rank_;
  int size_;
  std::string host_;
  std::map<int, std::string> hosts_;  // of the ranks met
  std::map<std::vector<int>, int> groups_;
  int beginnings_ = 0;
};

// For a launcher, which is no rank: whether `rank` has posted that it waited in vain, and for whom.
std::optional<std::vector<int>> waited_for(KeyStore& store, int rank);

}  // namespace llmsim::runtime
