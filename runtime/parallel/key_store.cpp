#include "runtime/parallel/key_store.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;

// c10d's messages end in a framework trace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

template <class Action>
auto answered(const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    throw Error("the store of the run does not answer (has the process that keeps it ended?): " +
                first_line(error));
  }
}

// libuv, where a libtorch has it, is for stores of thousands of clients; some are built without, and
// refuse to start a store that asks for it.
template <class Options>
void do_without_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

c10d::TCPStoreOptions store_options(std::uint16_t port, bool keep,
                                    std::chrono::milliseconds patience) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = keep;
  options.waitWorkers = false;
  options.timeout = patience;
  do_without_libuv(options);
  return options;
}

KeyStore of_attempt(c10::intrusive_ptr<c10d::Store> store, int attempt) {
  return KeyStore(c10::make_intrusive<c10d::PrefixStore>("llmsim/" + std::to_string(attempt),
                                                         std::move(store)));
}

}  // namespace

KeyStore::KeyStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
KeyStore::KeyStore(const KeyStore&) = default;
KeyStore::~KeyStore() = default;

void KeyStore::set(const std::string& key, const std::string& value) {
  answered([&] { store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end())); });
}

std::int64_t KeyStore::add(const std::string& key, std::int64_t value) {
  return answered([&] { return store_->add(key, value); });
}

std::optional<std::string> KeyStore::value(const std::string& key) {
  return answered([&]() -> std::optional<std::string> {
    if (!store_->check({key})) return std::nullopt;
    const std::vector<std::uint8_t> value = store_->get(key);
    return std::string(value.begin(), value.end());
  });
}

// Asks again and again, because a wait of c10d holds up every other use of the connection.
std::optional<std::string> KeyStore::await(const std::string& key,
                                           std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (auto pause = 1ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 100ms)) {
    if (auto found = value(key)) return found;
    if (std::chrono::steady_clock::now() + pause > deadline) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

KeptStore keep_store() {
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", store_options(0, true, 60s));
  const std::uint16_t port = store->getPort();
  return {of_attempt(std::move(store), 0), port};
}

KeyStore reach_store(const std::string& host, std::uint16_t port, bool keep, int attempt,
                     std::chrono::milliseconds patience) {
  try {
    return of_attempt(
        c10::make_intrusive<c10d::TCPStore>(host, store_options(port, keep, patience)), attempt);
  } catch (const std::exception& error) {
    throw Error("MASTER_ADDR:MASTER_PORT = " + host + ":" + std::to_string(port) +
                (keep ? ": cannot keep the store there: "
                      : ": no store answers there; does rank 0 run on that host? ") +
                first_line(error));
  }
}

}  // namespace llmsim::runtime
