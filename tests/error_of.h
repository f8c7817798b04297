// What an operation that must fail says.
#pragma once

#include <string>
#include <utility>

#include "sim/base/error.h"

namespace llmsim {

// The message of the Error that `operation` throws; empty where it throws none.
template <typename Operation>
std::string error_of(Operation&& operation) {
  try {
    std::forward<Operation>(operation)();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace llmsim
