// The blackboard of a run: keys and texts that every rank can set and read (c10d's stores).
//
// One process keeps it: the launcher (torchrun's agent, or our own parent process) or rank 0; the
// others reach it over TCP.  Throws Error where the store does not answer: its keeper is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Store;
}

namespace llmsim::runtime {

class KeyStore {
 public:
  explicit KeyStore(c10::intrusive_ptr<c10d::Store> store);
  KeyStore(const KeyStore&);
  ~KeyStore();

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> value(const std::string& key);
  // The sum of what has been added to a key, with this.
  std::int64_t add(const std::string& key, std::int64_t value);
  // None when `patience` ran out.
  std::optional<std::string> await(const std::string& key, std::chrono::milliseconds patience);

  const c10::intrusive_ptr<c10d::Store>& c10d_store() const { return store_; }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

// A store that this process keeps for the ranks that it starts, on a free port.
struct KeptStore {
  KeyStore store;
  std::uint16_t port = 0;
};
KeptStore keep_store();

// The store at host:port; `keep`: this process is to keep it there.  Each attempt at a run
// (torchrun's restarts) has its own keys.
KeyStore reach_store(const std::string& host, std::uint16_t port, bool keep, int attempt,
                     std::chrono::milliseconds patience);

}  // namespace llmsim::runtime
