// How much of a random test runs in which build: tests/run has both.
#pragma once

namespace llmsim {

#ifdef __SANITIZE_ADDRESS__
inline constexpr unsigned kPartsOfATest = 8;
#else
inline constexpr unsigned kPartsOfATest = 1;
#endif

// Of so many random cases those that this build runs: all where it is optimised, an eighth under
// sanitizers, which look for other errors than wrong results and take several times as long.
constexpr unsigned share_of(unsigned cases) { return cases / kPartsOfATest; }

}  // namespace llmsim
